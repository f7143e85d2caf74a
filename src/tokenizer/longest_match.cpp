// RWKV's tokenizer (kind "rwkv"). At each place from left to right, it takes the longest
// token, compared as bytes. It has no words and no merges.
#include <string>

#include "tokenizer/encoder.h"
#include "tokenizer/escaped_bytes.h"
#include "tokenizer/trie.h"

namespace billow::tokenizer {
namespace {

class LongestMatchEncoder : public Encoder {
 public:
  explicit LongestMatchEncoder(const EncoderInput& input) : unknown_(input.roles.unknown) {
    for (TokenId id = 0; id < input.vocabulary.n_tokens(); ++id) {
      if (input.vocabulary.type(id) != TokenType::kNormal) continue;
      std::string bytes;
      append_unescaped_bytes(input.vocabulary.text(id), bytes);
      tokens_.insert(bytes, static_cast<uint32_t>(id));
    }
  }

  void encode(std::string_view text, bool, std::vector<TokenId>& out) const override {
    while (!text.empty()) {
      const Trie::Match match = tokens_.longest_prefix(text);
      if (match.value != Trie::kNone)
        out.push_back(static_cast<TokenId>(match.value));
      else if (unknown_ != kNoToken)
        out.push_back(unknown_);
      text.remove_prefix(match.value != Trie::kNone ? match.n_bytes : 1);
    }
  }

 private:
  TokenId unknown_;
  Trie tokens_;
};

}  // namespace

std::unique_ptr<Encoder> make_longest_match_encoder(const EncoderInput& input) {
  return std::make_unique<LongestMatchEncoder>(input);
}

}  // namespace billow::tokenizer
