// The token list of a GGUF file: texts, scores, types, and the way back from a text to its token.
// Owns copies, so that the file may be closed. Set up by one thread; any thread may read
// afterwards.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tokenizer/token.h"

namespace billow::gguf {
class File;
}

namespace billow::tokenizer {

class Vocabulary {
 public:
  // Reads tokens, scores and types. Throws Error when the list is missing or the arrays do not
  // agree; an empty text is renamed [EMPTY_n]. Of two tokens with one text, the first is the one
  // that text finds.
  explicit Vocabulary(const gguf::File& file);
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  TokenId n_tokens() const noexcept { return static_cast<TokenId>(types_.size()); }
  bool has(TokenId id) const noexcept { return id >= 0 && id < n_tokens(); }
  size_t max_token_bytes() const noexcept { return max_token_bytes_; }
  bool has_scores() const noexcept { return !scores_.empty(); }

  // REQUIRES of the four: has(id).
  std::string_view text(TokenId id) const noexcept;
  float score(TokenId id) const noexcept;  // 0 if the file has no scores
  TokenType type(TokenId id) const noexcept { return types_[static_cast<size_t>(id)]; }
  void set_type(TokenId id, TokenType type) noexcept { types_[static_cast<size_t>(id)] = type; }

  // The token with exactly this text, or kNoToken.
  TokenId find(std::string_view text) const noexcept;
  // The token <0xXX> of a byte, or kNoToken.
  TokenId find_byte(unsigned char byte) const noexcept;

 private:
  void read_texts(const gguf::File& file);
  size_t index_texts();  // returns how many texts an earlier token has
  // The place of `text`, or the free one where it belongs.
  size_t locate(std::string_view text, size_t hash) const noexcept;
  void read_scores(const gguf::File& file);
  void read_types(const gguf::File& file);

  std::vector<char> bytes_;     // all texts, one after the other
  std::vector<size_t> begins_;  // n_tokens + 1 places in bytes_
  std::vector<float> scores_;   // empty if the file has none
  std::vector<TokenType> types_;
  // The tokens by their texts: a power of two of places, at most half of them taken. A token stands
  // at the place that its text's hash names, or at the next that was free.
  struct Place {
    uint32_t hash = 0;  // its upper half, to pass over most others without reading their texts
    TokenId id = kNoToken;
  };
  std::vector<Place> places_;
  size_t max_token_bytes_ = 0;
};

// An Error about the vocabulary in `file`, in the one form that all of them have.
Error vocabulary_error(const gguf::File& file, const std::string& what,
                       ErrorCode code = ErrorCode::kInvalidInput);

}  // namespace billow::tokenizer
