// Finds the special tokens in a text before it is encoded. User-defined tokens are always found;
// control and unknown tokens only on request. Immutable; thread-safe. The views of a result point
// into the text.
#pragma once

#include <string_view>
#include <vector>

#include "tokenizer/token.h"
#include "tokenizer/trie.h"
#include "tokenizer/vocabulary.h"

namespace billow::gguf {
class File;
}

namespace billow::tokenizer {

// A special token, or text between special tokens (token == kNoToken).
struct Fragment {
  TokenId token = kNoToken;
  std::string_view text;
};

class SpecialTokens {
 public:
  // Reads the model's names from `file`, because for a few models some tokens remove the white
  // space next to them.
  SpecialTokens(const gguf::File& file, const Vocabulary& vocabulary);

  // Returns the fragments of `text` in order. Fragments without a token are not empty. If special
  // tokens overlap, the longest wins, at any position; then the token with the smaller id; then the
  // leftmost.
  std::vector<Fragment> partition(std::string_view text, bool parse_special) const;

 private:
  struct Candidate {
    TokenId token;
    size_t begin;
    size_t n_bytes;
  };
  enum class Use : unsigned char { kRaw, kToken, kDropped };

  void read_strips(const gguf::File& file, const Vocabulary& vocabulary);
  // Returns the tokens of `trie` in the text, in text order. `uses` gets the use of each byte if
  // any token is found.
  std::vector<Candidate> choose(std::string_view text, const Trie& trie,
                                std::vector<Use>& uses) const;
  void mark(const Candidate& candidate, std::string_view text, std::vector<Use>& uses) const;

  Trie all_;
  Trie user_defined_;
  std::vector<TokenId> strips_left_;   // ascending
  std::vector<TokenId> strips_right_;  // ascending
};

}  // namespace billow::tokenizer
