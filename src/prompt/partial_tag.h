// Finding tags in text that arrives in chunks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace billow::prompt {

// The length of the longest end of `text` that may be the start of `tag`: what a scanner holds back
// until it knows more. Less than the length of the tag.
inline size_t partial_tag_length(std::string_view text, std::string_view tag) {
  const size_t n_most = tag.empty() ? 0 : std::min(text.size(), tag.size() - 1);
  for (size_t n = n_most; n > 0; --n) {
    if (text.ends_with(tag.substr(0, n))) return n;
  }
  return 0;
}

}  // namespace billow::prompt
