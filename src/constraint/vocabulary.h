// The tokens of a model for grammars: the bytes of each token, the end tokens, and how text is
// split into tokens. Created once per model and shared. Creation takes up to a second and up to 0.5
// kB per token. Immutable; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct billow_vocabulary;

namespace billow::constraint {

// Token data from a model's tokenizer. Token i has texts[i].
struct TokenTexts {
  // The bytes that the token adds to an answer, possibly part of a character. Empty: never allowed
  // inside a grammar, as for control tokens.
  std::vector<std::string_view> texts;
  std::vector<int32_t> ends;  // tokens that end an answer; at least one
  // Returns the tokens of a text in the middle of an answer, as the model saw them in training.
  // Must be thread-safe and must not throw. Returns no tokens on failure.
  std::function<std::vector<int32_t>(std::string_view text)> encode = {};
  // The same, but control tokens in the text become tokens.
  std::function<std::vector<int32_t>(std::string_view text)> encode_special = {};
};

class Vocabulary {
 public:
  // Copies all texts. Throws Error: kInvalidInput for end tokens outside the vocabulary or no end
  // tokens, kOutOfMemory if there is no memory.
  explicit Vocabulary(TokenTexts tokens);

  size_t n_tokens() const noexcept { return n_tokens_; }
  // Returns the number of elements of a mask: 32 tokens each, lowest bit first.
  size_t n_words() const noexcept { return (n_tokens_ + 31) / 32; }
  std::span<const int32_t> ends() const noexcept { return ends_; }
  // Tokens of blanks and line breaks only; ascending.
  std::span<const int32_t> blanks() const noexcept { return blanks_; }
  // Returns the tokens whose text has `part`, which is not empty, and after it more than blanks;
  // ascending. If `anywhere` is false, the text must begin with `part`.
  std::vector<int32_t> going_on_after(std::string_view part, bool anywhere) const;
  // Returns no tokens if the tokenizer cannot encode.
  std::vector<int32_t> encode_special(std::string_view text) const;

  const billow_vocabulary* handle() const noexcept { return handle_.get(); }

 private:
  size_t n_tokens_;
  std::string bytes_;                // the texts of all tokens
  std::vector<uint32_t> text_ends_;  // of each token, in `bytes_`
  std::vector<int32_t> ends_;
  std::vector<int32_t> blanks_;
  std::function<std::vector<int32_t>(std::string_view)> encode_special_;
  std::shared_ptr<const billow_vocabulary> handle_;
};

}  // namespace billow::constraint
