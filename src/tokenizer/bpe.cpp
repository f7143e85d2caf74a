// Byte-pair encoding: merges within words of the pre-tokeniser, by rank. Byte-level vocabularies
// (gpt2) start from single bytes; raw-text vocabularies (gemma4 and similar) start from UTF-8
// characters. Symbols are numbers: the id of a token, or a number above all ids for a text that
// occurs in merges but is not a token.
#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "gguf/file.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/encoder.h"
#include "tokenizer/escaped_space.h"
#include "tokenizer/merge_chain.h"
#include "tokenizer/pair_map.h"
#include "tokenizer/pretokenizer.h"

namespace billow::tokenizer {
namespace {

constexpr uint32_t kNoSymbol = UINT32_MAX;  // text that is in no merge
constexpr size_t kMaxMerges = size_t{1} << 30;

class BpeEncoder : public Encoder {
 public:
  explicit BpeEncoder(const EncoderInput& input)
      : vocabulary_(input.vocabulary),
        pre_tokenizer_(*input.settings.family),
        raw_text_(input.settings.has_flag(kRawText)),
        escape_spaces_(input.settings.has_flag(kEscapeSpaces)),
        ignore_merges_(input.settings.has_flag(kIgnoreMerges)),
        newline_words_(input.settings.has_flag(kNewlineWords)) {
    read_bytes();
    read_merges(input.file);
  }

  void encode(std::string_view text, bool /*after_special*/,
              std::vector<TokenId>& out) const override {
    std::string escaped;
    if (escape_spaces_) {
      escaped = escape_spaces(text);
      text = escaped;
    }
    MergeChain<uint32_t> chain;
    size_t begin = 0;
    for (const size_t end : pre_tokenizer_.split(text)) {
      encode_word(text.substr(begin, end - begin), chain, out);
      begin = end;
    }
  }

 private:
  // Finds merges by rank. The number of a merge is its rank.
  struct ByRank {
    const PairMap& ranks;
    const std::vector<uint32_t>& merged;

    bool find(const Symbol& left, const Symbol& right, uint32_t& rank,
              uint32_t& symbol) const noexcept {
      if (left.id == kNoSymbol || right.id == kNoSymbol) return false;
      rank = ranks.find(left.id, right.id);
      if (rank == PairMap::kAbsent) return false;
      symbol = merged[rank];
      return true;
    }
  };

  bool is_token(uint32_t symbol) const noexcept {
    return symbol < static_cast<uint32_t>(vocabulary_.n_tokens());
  }

  // Returns the number of a text whose token is `id`. Gives the text a new number if it has no
  // token and no number.
  uint32_t intern(std::string_view text, TokenId id) {
    if (id != kNoToken) return static_cast<uint32_t>(id);
    const auto next =
        static_cast<uint32_t>(static_cast<size_t>(vocabulary_.n_tokens()) + others_.size());
    return others_.emplace(std::string(text), next).first->second;
  }

  void read_bytes() {
    for (unsigned byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      if (raw_text_) {
        byte_tokens_[byte] = vocabulary_.find_byte(static_cast<unsigned char>(byte));
      } else {
        const std::string spelled = spell_bytes({&c, 1});
        byte_tokens_[byte] = vocabulary_.find(spelled);
        byte_symbols_[byte] = intern(spelled, byte_tokens_[byte]);
      }
    }
  }

  void read_merges(const gguf::File& file) {
    constexpr std::string_view kKey = "tokenizer.ggml.merges";
    const gguf::Array* merges = file.get_string_array(kKey);
    if (merges == nullptr) {
      throw vocabulary_error(file, std::string(kKey) +
                                       " is missing; byte-pair encoding needs it; "
                                       "convert the model again");
    }
    const size_t n = merges->strings.size();
    if (n > kMaxMerges) throw vocabulary_error(file, "more merges than 2^30");
    merged_.reserve(n);
    ranks_.reserve(n);
    SomeMerges some;
    for (size_t begin = 0; begin < n; begin += SomeMerges::kMax) {
      const size_t end = std::min(begin + SomeMerges::kMax, n);
      some.clear();
      for (size_t rank = begin; rank < end; ++rank) {
        if (some.add(merges->strings[rank])) continue;
        throw vocabulary_error(file, std::string(kKey) + "[" + std::to_string(rank) +
                                         "] must be two texts separated by a space");
      }
      add_merges(some);
    }
  }

  // A few merges, which are looked up together.
  struct SomeMerges {
    static constexpr size_t kMax = 64;
    std::vector<std::string_view> texts;  // of each merge: left, right, both joined
    std::vector<TokenId> tokens;          // of the texts
    std::vector<uint32_t> symbols;        // of the texts
    std::array<std::string, kMax> joined;

    size_t n() const { return texts.size() / 3; }
    void clear() { texts.clear(); }
    // Returns false if `merge` is not two texts separated by a space.
    bool add(std::string_view merge) {
      const size_t space = merge.find(' ', 1);
      if (space == std::string_view::npos) return false;
      const std::string_view left = merge.substr(0, space);
      const std::string_view right = merge.substr(space + 1);
      std::string& both = joined[n()];
      both.assign(left).append(right);
      texts.insert(texts.end(), {left, right, both});
      return true;
    }
  };

  // Adds merges whose ranks follow those of the merges before.
  void add_merges(SomeMerges& some) {
    some.tokens.resize(some.texts.size());
    some.symbols.resize(some.texts.size());
    vocabulary_.find_all(some.texts, some.tokens);
    for (size_t i = 0; i < some.texts.size(); ++i)
      some.symbols[i] = intern(some.texts[i], some.tokens[i]);
    for (size_t i = 0; i < some.n(); ++i)
      ranks_.prefetch(some.symbols[3 * i], some.symbols[3 * i + 1]);
    for (size_t i = 0; i < some.n(); ++i) {
      const auto rank = static_cast<uint32_t>(merged_.size());
      ranks_.insert(some.symbols[3 * i], some.symbols[3 * i + 1], rank);
      merged_.push_back(some.symbols[3 * i + 2]);
    }
  }

  // Returns the token of the whole word, if the family takes such words without merging.
  TokenId whole_word(std::string_view word) const {
    if (ignore_merges_) return vocabulary_.find(raw_text_ ? std::string(word) : spell_bytes(word));
    if (newline_words_ && word.find_first_not_of('\n') == std::string_view::npos) {
      return vocabulary_.find(word);
    }
    return kNoToken;
  }

  void fill(std::string_view word, MergeChain<uint32_t>& chain) const {
    chain.clear();
    uint32_t at = 0;
    while (at < word.size()) {
      uint32_t end = at + 1;
      uint32_t symbol = kNoSymbol;
      if (raw_text_) {
        end = at + utf8::decode(word.substr(at)).n_bytes;
        symbol = character_symbol(word.substr(at, end - at));
      } else {
        symbol = byte_symbols_[static_cast<unsigned char>(word[at])];
      }
      chain.push({symbol, at, end});
      at = end;
    }
  }

  uint32_t character_symbol(std::string_view character) const {
    const TokenId id = vocabulary_.find(character);
    if (id != kNoToken) return static_cast<uint32_t>(id);
    const auto other = others_.find(std::string(character));
    return other == others_.end() ? kNoSymbol : other->second;
  }

  void encode_word(std::string_view word, MergeChain<uint32_t>& chain,
                   std::vector<TokenId>& out) const {
    const TokenId whole = whole_word(word);
    if (whole != kNoToken) {
      out.push_back(whole);
      return;
    }
    fill(word, chain);
    chain.merge(ByRank{ranks_, merged_});
    chain.for_each([&](const Symbol& symbol) {
      if (is_token(symbol.id)) {
        out.push_back(static_cast<TokenId>(symbol.id));
        return;
      }
      // Bytes without a token are dropped: the vocabulary cannot represent them.
      for (uint32_t i = symbol.begin; i < symbol.end; ++i) {
        const TokenId id = byte_tokens_[static_cast<unsigned char>(word[i])];
        if (id != kNoToken) out.push_back(id);
      }
    });
  }

  const Vocabulary& vocabulary_;
  PreTokenizer pre_tokenizer_;
  bool raw_text_;
  bool escape_spaces_;
  bool ignore_merges_;
  bool newline_words_;
  std::array<uint32_t, 256> byte_symbols_{};  // symbols of bytes, for byte-level vocabularies
  std::array<TokenId, 256> byte_tokens_{};    // tokens for bytes whose symbol is not a token
  std::unordered_map<std::string, uint32_t> others_;  // symbols that are not tokens
  PairMap ranks_;
  std::vector<uint32_t> merged_;  // by rank: the result of the merge
};

}  // namespace

std::unique_ptr<Encoder> make_bpe_encoder(const EncoderInput& input) {
  return std::make_unique<BpeEncoder>(input);
}

}  // namespace billow::tokenizer
