// Decodes a reply token by token. Bytes of an unfinished character wait for the rest, so that what
// comes out is always whole UTF-8: what can never become a character is U+FFFD. One stream, one
// thread; the Tokenizer must outlive it.
#pragma once

#include <string>

#include "tokenizer/tokenizer.h"

namespace billow::tokenizer {

class StreamDecoder {
 public:
  struct Options {
    bool render_special = false;  // control and unknown tokens as their texts instead of nothing
    bool strip_leading_space =
        false;  // the first token begins a text that encoding prefixed with a space
  };

  explicit StreamDecoder(const Tokenizer& tokenizer) : StreamDecoder(tokenizer, Options{}) {}
  StreamDecoder(const Tokenizer& tokenizer, Options options)
      : tokenizer_(&tokenizer), options_(options), strips_space_(options.strip_leading_space) {}

  // The text that `id` completes, often empty. Throws Error kInvalidInput for an id out of range.
  std::string push(TokenId id);

  // What is left when the stream ends: U+FFFD for each byte of a character that was never finished.
  std::string finish();

  // Bytes that wait for the rest of their character.
  size_t n_pending_bytes() const noexcept { return pending_.size(); }

 private:
  const Tokenizer* tokenizer_;
  Options options_;
  bool strips_space_;
  std::string pending_;
};

}  // namespace billow::tokenizer
