// The tokens of a model as grammars see them: the bytes of each, which ones end an answer, and how
// text is cut into tokens. Made once per model, in up to a second and up to 0.5 kB a token, and
// shared. Immutable; any thread.
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

// What a model's tokenizer tells of its tokens. Token i has texts[i].
struct TokenTexts {
  // The bytes that it adds to an answer, possibly part of a character. Empty: it is never allowed
  // inside a grammar, as with control tokens.
  std::vector<std::string_view> texts;
  std::vector<int32_t> ends;  // tokens that end an answer: at least one
  // The tokens of a text in the middle of an answer, as the model saw it in training. Any thread.
  // It must not throw; where it cannot, it returns none.
  std::function<std::vector<int32_t>(std::string_view text)> encode = {};
  // The same, where control tokens that are written in the text become tokens.
  std::function<std::vector<int32_t>(std::string_view text)> encode_special = {};
};

class Vocabulary {
 public:
  // Copies all texts. Throws Error (kInvalidInput) for ids outside the vocabulary or no end token,
  // kOutOfMemory where there is none.
  explicit Vocabulary(TokenTexts tokens);

  size_t n_tokens() const noexcept { return n_tokens_; }
  // Of a mask: 32 tokens each, the lowest bit is the first.
  size_t n_words() const noexcept { return (n_tokens_ + 31) / 32; }
  std::span<const int32_t> ends() const noexcept { return ends_; }
  // Tokens that are nothing but blanks and line breaks; ascending.
  std::span<const int32_t> blanks() const noexcept { return blanks_; }
  // None where the tokenizer cannot.
  std::vector<int32_t> encode_special(std::string_view text) const;

  const billow_vocabulary* handle() const noexcept { return handle_.get(); }

 private:
  size_t n_tokens_;
  std::vector<int32_t> ends_;
  std::vector<int32_t> blanks_;
  std::function<std::vector<int32_t>(std::string_view)> encode_special_;
  std::shared_ptr<const billow_vocabulary> handle_;
};

}  // namespace billow::constraint
