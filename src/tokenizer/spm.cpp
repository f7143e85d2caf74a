// SentencePiece's BPE (kind "llama"). Adjacent pieces merge if their union is a token; the highest
// score merges first.
#include <array>
#include <string>
#include <unordered_set>

#include "base/utf8.h"
#include "tokenizer/encoder.h"
#include "tokenizer/escaped_space.h"
#include "tokenizer/merge_chain.h"

namespace billow::tokenizer {
namespace {

class SpmEncoder : public Encoder {
 public:
  explicit SpmEncoder(const EncoderInput& input)
      : vocabulary_(input.vocabulary),
        unknown_(input.roles.unknown),
        add_space_prefix_(input.settings.add_space_prefix) {
    if (!vocabulary_.has_scores()) {
      throw vocabulary_error(input.file, "tokenizer.ggml.scores is missing; kind 'llama' needs it");
    }
    for (unsigned byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      byte_tokens_[byte] = vocabulary_.find_byte(static_cast<unsigned char>(byte));
      if (byte_tokens_[byte] == kNoToken) byte_tokens_[byte] = vocabulary_.find({&c, 1});
    }
    for (TokenId id = 0; id < vocabulary_.n_tokens(); ++id) note_inner_spaces(vocabulary_.text(id));
  }

  void encode(std::string_view text, bool after_special, std::vector<TokenId>& out) const override {
    std::string escaped;
    if (add_space_prefix_ && after_special) escaped = kEscapedSpace;
    escaped += escape_spaces(text);
    MergeChain<Score> chain;
    std::string_view rest = escaped;
    while (!rest.empty()) {
      const size_t n = part_bytes(rest);
      encode_part(rest.substr(0, n), chain, out);
      rest.remove_prefix(n);
    }
  }

 private:
  // The highest score is the smallest key.
  struct Score {
    float value = 0;
    bool operator<(const Score& other) const noexcept { return value > other.value; }
  };

  struct ByScore {
    const Vocabulary& vocabulary;
    std::string_view text;

    bool find(const Symbol& left, const Symbol& right, Score& score,
              uint32_t& symbol) const noexcept {
      const size_t n_bytes = right.end - left.begin;
      if (n_bytes > vocabulary.max_token_bytes()) return false;
      const TokenId id = vocabulary.find(text.substr(left.begin, n_bytes));
      if (id == kNoToken) return false;
      score.value = vocabulary.score(id);
      symbol = static_cast<uint32_t>(id);
      return true;
    }
  };

  // Stores the bytes that any token has directly before a U+2581.
  void note_inner_spaces(std::string_view text) {
    for (size_t at = text.find(kEscapedSpace, 1); at != std::string_view::npos;
         at = text.find(kEscapedSpace, at + 1)) {
      before_space_.insert(text[at - 1]);
    }
  }

  // Returns the length in bytes (at least one) of the first part of `text` that no merge can cross.
  // The part ends before a U+2581 if no token has the preceding byte before a U+2581. So words are
  // merged separately, with the same result, and faster.
  size_t part_bytes(std::string_view text) const {
    for (size_t at = text.find(kEscapedSpace, 1); at != std::string_view::npos;
         at = text.find(kEscapedSpace, at + 1)) {
      if (!before_space_.contains(text[at - 1])) return at;
    }
    return text.size();
  }

  void encode_part(std::string_view text, MergeChain<Score>& chain,
                   std::vector<TokenId>& out) const {
    chain.clear();
    for (uint32_t at = 0; at < text.size();) {
      const uint32_t end = at + utf8::decode(text.substr(at)).n_bytes;
      const TokenId id = vocabulary_.find(text.substr(at, end - at));
      chain.push({static_cast<uint32_t>(id), at, end});
      at = end;
    }
    chain.merge(ByScore{vocabulary_, text});
    chain.for_each([&](const Symbol& symbol) {
      const auto id = static_cast<TokenId>(symbol.id);
      if (id != kNoToken) {
        out.push_back(id);
        return;
      }
      for (uint32_t i = symbol.begin; i < symbol.end; ++i) append_byte(text[i], out);
    });
  }

  void append_byte(char byte, std::vector<TokenId>& out) const {
    const TokenId id = byte_tokens_[static_cast<unsigned char>(byte)];
    if (id != kNoToken) {
      out.push_back(id);
    } else if (unknown_ != kNoToken) {
      out.push_back(unknown_);
    }
  }

  const Vocabulary& vocabulary_;
  TokenId unknown_;
  bool add_space_prefix_;
  std::array<TokenId, 256> byte_tokens_{};
  std::unordered_set<char> before_space_;
};

}  // namespace

std::unique_ptr<Encoder> make_spm_encoder(const EncoderInput& input) {
  return std::make_unique<SpmEncoder>(input);
}

}  // namespace billow::tokenizer
