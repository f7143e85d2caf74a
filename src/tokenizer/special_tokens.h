// Finds the special tokens in a text before it is encoded: control and unknown tokens when they are
// asked for, user-defined ones always. Immutable; any thread may partition. The views of a result
// point into the text and live as long as it.
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
  // Reads the model's names from `file`: for a few models some tokens swallow the white space
  // beside them.
  SpecialTokens(const gguf::File& file, const Vocabulary& vocabulary);

  // The fragments of `text` in order; raw ones are not empty. Where special tokens overlap, the
  // longest wins wherever it stands, then the one with the smaller id, then the leftmost.
  std::vector<Fragment> partition(std::string_view text, bool parse_special) const;

 private:
  struct Candidate {
    TokenId token;
    size_t begin;
    size_t n_bytes;
  };
  enum class Use : unsigned char { kRaw, kToken, kDropped };

  void read_strips(const gguf::File& file, const Vocabulary& vocabulary);
  // The tokens of `trie` that the text falls into, in its order; `uses` gets the use of each byte
  // unless there are none.
  std::vector<Candidate> choose(std::string_view text, const Trie& trie,
                                std::vector<Use>& uses) const;
  void mark(const Candidate& candidate, std::string_view text, std::vector<Use>& uses) const;

  Trie all_;
  Trie user_defined_;
  std::vector<TokenId> strips_left_;   // ascending
  std::vector<TokenId> strips_right_;  // ascending
};

}  // namespace billow::tokenizer
