// Decodes a reply token by token. Bytes of an unfinished character wait for the rest, so the output
// is always valid UTF-8. Bytes that can never become a character become U+FFFD. For one stream on
// one thread. The Tokenizer must outlive the decoder.
#pragma once

#include <string>

#include "tokenizer/tokenizer.h"

namespace billow::tokenizer {

class StreamDecoder {
 public:
  struct Options {
    bool render_special = false;  // render control and unknown tokens as their texts
    bool strip_leading_space =
        false;  // the first token begins a text to which encoding added a space
  };

  explicit StreamDecoder(const Tokenizer& tokenizer) : StreamDecoder(tokenizer, Options{}) {}
  StreamDecoder(const Tokenizer& tokenizer, Options options)
      : tokenizer_(&tokenizer), options_(options), strips_space_(options.strip_leading_space) {}

  // Returns the text that `id` completes, often empty. Throws Error kInvalidInput for an id out of
  // range.
  std::string push(TokenId id);

  // Returns the rest at the end of the stream: U+FFFD for each byte of an unfinished character.
  std::string finish();

  // Returns the number of bytes that wait for the rest of their character.
  size_t n_pending_bytes() const noexcept { return pending_.size(); }

 private:
  const Tokenizer* tokenizer_;
  Options options_;
  bool strips_space_;
  std::string pending_;
};

}  // namespace billow::tokenizer
