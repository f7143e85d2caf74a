#include "tokenizer/charsmap.h"

#include "base/error.h"

namespace billow::tokenizer {
namespace {

uint32_t read_u32(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    value |= uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return value;
}

// The fields of a node. Bits 10 and up: the offset to the children, scaled if bit 9 is set. Bit 8:
// a text ends here. Bits 0 to 7: the byte that leads here. A value node has bit 31 and the value
// below.
uint32_t offset_of(uint32_t node) { return (node >> 10) << ((node & (1u << 9)) >> 6); }
bool has_value(uint32_t node) { return ((node >> 8) & 1) != 0; }
uint32_t label_of(uint32_t node) { return node & ((1u << 31) | 0xFF); }
uint32_t value_of(uint32_t node) { return node & ((1u << 31) - 1); }

}  // namespace

CharsMap::CharsMap(std::string_view blob, const std::string& name) {
  const auto fail = [&name](const char* what) {
    throw Error(ErrorCode::kInvalidInput, name + ": " + what);
  };
  if (blob.size() < 4) fail("shorter than its header");
  const size_t n_bytes = read_u32(blob, 0);
  if (n_bytes % 4 != 0 || n_bytes > blob.size() - 4) fail("its nodes reach beyond its end");
  nodes_.reserve(n_bytes / 4);
  for (size_t at = 4; at < 4 + n_bytes; at += 4) nodes_.push_back(read_u32(blob, at));
  replacements_ = blob.substr(4 + n_bytes);
  if (!nodes_.empty() && (replacements_.empty() || replacements_.back() != '\0')) {
    fail("its last replacement has no end");
  }
}

CharsMap::Match CharsMap::longest_prefix(std::string_view text) const noexcept {
  Match best;
  if (nodes_.empty()) return best;
  size_t at = offset_of(nodes_[0]);
  for (size_t i = 0; i < text.size() && text[i] != '\0'; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    at ^= byte;
    if (at >= nodes_.size() || label_of(nodes_[at]) != byte) break;
    const uint32_t node = nodes_[at];
    at ^= offset_of(node);
    if (!has_value(node)) continue;
    if (at >= nodes_.size()) break;
    const size_t place = value_of(nodes_[at]);
    if (place >= replacements_.size()) continue;
    best = {i + 1, std::string_view(replacements_.data() + place)};
  }
  return best;
}

}  // namespace billow::tokenizer
