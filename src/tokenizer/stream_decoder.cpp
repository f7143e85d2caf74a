#include "tokenizer/stream_decoder.h"

#include <utility>

#include "base/utf8.h"

namespace billow::tokenizer {

std::string StreamDecoder::push(TokenId id) {
  std::string_view bytes = tokenizer_->piece(id, options_.render_special);
  if (strips_space_ && bytes.starts_with(' ')) bytes.remove_prefix(1);
  strips_space_ = false;
  pending_ += bytes;
  const size_t n_whole = utf8::whole_length(pending_);
  std::string text = utf8::sanitized(std::string_view(pending_).substr(0, n_whole));
  pending_.erase(0, n_whole);
  return text;
}

std::string StreamDecoder::finish() { return utf8::sanitized(std::exchange(pending_, {})); }

}  // namespace billow::tokenizer
