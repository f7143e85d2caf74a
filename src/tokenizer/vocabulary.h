// The token list of a GGUF file: texts, scores, types, and a lookup from a text to its token. Owns
// copies, so the file may be closed. One thread sets it up; then reading is thread-safe.
#pragma once

#include <cstddef>
#include <span>
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
  // Reads tokens, scores and types. Throws Error if the list is missing or the arrays do not agree.
  // An empty text is renamed [EMPTY_n]. If two tokens have the same text, find() returns the first.
  explicit Vocabulary(const gguf::File& file);
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  TokenId n_tokens() const noexcept { return static_cast<TokenId>(types_.size()); }
  bool has(TokenId id) const noexcept { return id >= 0 && id < n_tokens(); }
  size_t max_token_bytes() const noexcept { return max_token_bytes_; }
  size_t n_bytes() const noexcept { return bytes_.size(); }  // of all texts
  bool has_scores() const noexcept { return !scores_.empty(); }

  // REQUIRES (for all four): has(id).
  std::string_view text(TokenId id) const noexcept;
  float score(TokenId id) const noexcept;  // 0 if the file has no scores
  TokenType type(TokenId id) const noexcept { return types_[static_cast<size_t>(id)]; }
  void set_type(TokenId id, TokenType type) noexcept { types_[static_cast<size_t>(id)] = type; }

  // Returns the token with exactly this text, or kNoToken.
  TokenId find(std::string_view text) const noexcept;
  // Sets tokens[i] to find(texts[i]). The lookups wait for memory together, so this is faster than
  // single lookups.
  // REQUIRES: as many tokens as texts.
  void find_all(std::span<const std::string_view> texts, std::span<TokenId> tokens) const noexcept;
  // Returns the token <0xXX> of a byte, or kNoToken.
  TokenId find_byte(unsigned char byte) const noexcept;

 private:
  void read_texts(const gguf::File& file);
  size_t index_texts();  // returns the number of tokens whose text an earlier token has
  // Returns the place of `text`, or the free place for it.
  size_t locate(std::string_view text, size_t hash) const noexcept;
  void read_scores(const gguf::File& file);
  void read_types(const gguf::File& file);

  std::vector<char> bytes_;     // all texts, one after the other
  std::vector<size_t> begins_;  // n_tokens + 1 offsets into bytes_
  std::vector<float> scores_;   // empty if the file has none
  std::vector<TokenType> types_;
  // The tokens by their texts: a hash table with a power of two of places, at most half of them
  // used. The hash of a text names the place of its token; if that is used, the token is at the
  // next free place.
  struct Place {
    uint32_t hash = 0;  // upper half of the hash: it differs for most other texts, so their texts
                        // need not be read
    TokenId id = kNoToken;
  };
  std::vector<Place> places_;
  size_t max_token_bytes_ = 0;
};

// Returns an Error about the vocabulary in `file`. All such errors have the same form.
Error vocabulary_error(const gguf::File& file, const std::string& what,
                       ErrorCode code = ErrorCode::kInvalidInput);

}  // namespace billow::tokenizer
