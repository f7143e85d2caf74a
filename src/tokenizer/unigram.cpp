// SentencePiece's Unigram model (kind "t5"). It normalises the text and splits it into the tokens
// with the largest sum of scores (log probabilities). The Viterbi algorithm over characters finds
// them.
#include <algorithm>
#include <limits>
#include <string>

#include "base/utf8.h"
#include "gguf/file.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/encoder.h"
#include "tokenizer/escaped_space.h"
#include "tokenizer/trie.h"

namespace billow::tokenizer {
namespace {

constexpr double kUnknownPenalty = 10.0;  // subtracted from the lowest score, as in SentencePiece

class UnigramEncoder : public Encoder {
 public:
  explicit UnigramEncoder(const EncoderInput& input)
      : vocabulary_(input.vocabulary),
        unknown_(input.roles.unknown),
        add_space_prefix_(input.settings.add_space_prefix),
        merge_spaces_(input.settings.remove_extra_whitespaces) {
    if (!vocabulary_.has_scores()) {
      throw vocabulary_error(input.file, "tokenizer.ggml.scores is missing; kind 't5' needs it");
    }
    read_charsmap(input.file);
    double lowest = 0;
    for (TokenId id = 0; id < vocabulary_.n_tokens(); ++id) {
      const TokenType type = vocabulary_.type(id);
      const std::string_view text = vocabulary_.text(id);
      const auto value = static_cast<uint32_t>(id);
      if (type == TokenType::kNormal) {
        lowest = std::min(lowest, static_cast<double>(vocabulary_.score(id)));
      }
      if (type == TokenType::kNormal || type == TokenType::kUserDefined ||
          type == TokenType::kUnused) {
        tokens_.insert(text, value);
      }
      if (type == TokenType::kUserDefined) user_defined_.insert(text, value);
    }
    unknown_score_ = lowest - kUnknownPenalty;
  }

  void encode(std::string_view text, bool /*after_special*/,
              std::vector<TokenId>& out) const override {
    const std::string normal = normalize(text);
    if (!normal.empty()) append_best(normal, out);
  }

 private:
  // The best way to reach a place in the text.
  struct Best {
    double score = -std::numeric_limits<double>::infinity();
    uint32_t from = 0;
    TokenId token = kNoToken;
    bool known = true;
  };

  void read_charsmap(const gguf::File& file) {
    constexpr std::string_view kKey = "tokenizer.ggml.precompiled_charsmap";
    const gguf::Array* blob = file.get_array(kKey);
    if (blob == nullptr) return;
    if (blob->element_type != gguf::ValueType::kU8 && blob->element_type != gguf::ValueType::kI8) {
      throw vocabulary_error(file, std::string(kKey) + " is not an array of bytes");
    }
    charsmap_ = CharsMap({reinterpret_cast<const char*>(blob->bytes.data()), blob->bytes.size()},
                         "vocabulary of '" + file.path() + "': " + std::string(kKey));
  }

  // Returns the normal form of a prefix of `text`, whose length is `n_bytes`.
  std::string_view normal_prefix(std::string_view text, size_t& n_bytes) const {
    const Trie::Match literal = user_defined_.longest_prefix(text);
    if (literal.n_bytes != 0) {
      n_bytes = literal.n_bytes;
      return text.substr(0, n_bytes);
    }
    const CharsMap::Match mapped = charsmap_.longest_prefix(text);
    if (mapped.n_bytes != 0) {
      n_bytes = mapped.n_bytes;
      return mapped.replacement;
    }
    const utf8::CodePoint point = utf8::decode(text);
    n_bytes = point.n_bytes;
    return point.valid ? text.substr(0, n_bytes) : std::string_view("\xEF\xBF\xBD");
  }

  std::string normalize(std::string_view text) const {
    std::string out;
    out.reserve(text.size() + text.size() / 4 + kEscapedSpace.size());
    bool prefix_due = add_space_prefix_;
    bool in_word = false;
    while (!text.empty()) {
      size_t n_bytes = 0;
      for (const char byte : normal_prefix(text, n_bytes)) {
        if (byte == ' ') {
          in_word = false;
          if (!merge_spaces_) out += kEscapedSpace;
          continue;
        }
        if (!in_word && (prefix_due || merge_spaces_)) {
          out += kEscapedSpace;
          prefix_due = false;
        }
        in_word = true;
        out.push_back(byte);
      }
      text.remove_prefix(n_bytes);
    }
    return out;
  }

  std::vector<Best> find_best(std::string_view text) const {
    std::vector<Best> best(text.size() + 1);
    best[0].score = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t n_character = utf8::decode(text.substr(at)).n_bytes;
      bool known = false;  // a token is exactly this character
      const auto offer = [&](size_t end, double score, TokenId token, bool is_known) {
        const double sum = best[at].score + score;
        if (sum > best[end].score) best[end] = {sum, static_cast<uint32_t>(at), token, is_known};
      };
      uint32_t node = Trie::kRoot;
      for (size_t end = at; end < text.size();) {
        node = tokens_.child(node, text[end]);
        if (node == Trie::kNone) break;
        ++end;
        if (tokens_.value(node) == Trie::kNone) continue;
        if (end - at == n_character) known = true;
        const auto id = static_cast<TokenId>(tokens_.value(node));
        const bool literal = vocabulary_.type(id) == TokenType::kUserDefined;
        offer(end, literal ? 0.0 : static_cast<double>(vocabulary_.score(id)), id, true);
      }
      if (!known) offer(at + n_character, unknown_score_, unknown_, false);
      at += n_character;
    }
    return best;
  }

  void append_best(std::string_view text, std::vector<TokenId>& out) const {
    const std::vector<Best> best = find_best(text);
    const auto first = static_cast<std::ptrdiff_t>(out.size());
    bool after_unknown = false;
    for (size_t at = text.size(); at != 0; at = best[at].from) {
      const bool repeats = !best[at].known && after_unknown;
      if (!repeats && best[at].token != kNoToken) out.push_back(best[at].token);
      after_unknown = !best[at].known;
    }
    std::reverse(out.begin() + first, out.end());
  }

  const Vocabulary& vocabulary_;
  TokenId unknown_;
  bool add_space_prefix_;
  bool merge_spaces_;
  double unknown_score_ = 0;
  CharsMap charsmap_;
  Trie tokens_;
  Trie user_defined_;
};

}  // namespace

std::unique_ptr<Encoder> make_unigram_encoder(const EncoderInput& input) {
  return std::make_unique<UnigramEncoder>(input);
}

}  // namespace billow::tokenizer
