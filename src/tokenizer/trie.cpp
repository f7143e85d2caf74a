#include "tokenizer/trie.h"

#include <algorithm>

namespace billow::tokenizer {

Trie::Trie() : values_(1, kNone) { first_.fill(kNone); }

void Trie::insert(std::string_view text, uint32_t value) {
  if (text.empty()) return;
  uint32_t node = kRoot;
  for (const char byte : text) {
    uint32_t next = child(node, byte);
    if (next == kNone) {
      next = static_cast<uint32_t>(values_.size());
      values_.push_back(kNone);
      const auto b = static_cast<uint8_t>(byte);
      if (node == kRoot) {
        first_[b] = next;
      } else {
        edges_.insert(node, b, next);
      }
    }
    node = next;
  }
  if (values_[node] == kNone) values_[node] = value;
}

Trie::Match Trie::longest_prefix(std::string_view text, size_t limit) const noexcept {
  Match best;
  uint32_t node = kRoot;
  const size_t n = std::min(limit, text.size());
  for (size_t i = 0; i < n; ++i) {
    node = child(node, text[i]);
    if (node == kNone) break;
    if (values_[node] != kNone) best = {values_[node], i + 1};
  }
  return best;
}

}  // namespace billow::tokenizer
