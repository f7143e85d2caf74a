// Where in a block the keys and values of each layer and head lie. Layers of the same window share
// a group: a block of a group holds 64 positions of all its layers, so one table of block ids
// serves them all, and a group with a window needs blocks for its window only. Pure arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace billow::kv {

inline constexpr uint32_t kBlockPositions = 64;

// What one layer keeps for each position.
struct LayerNeed {
  uint32_t n_heads = 0;
  uint32_t k_len = 0;  // values of a key; of a value below
  uint32_t v_len = 0;
  uint32_t window = 0;  // positions that a query sees, itself included; 0: all
};

struct LayerPlace {
  uint32_t group = 0;
  size_t offset = 0;  // of the layer in a block, bytes
  LayerNeed need;
  size_t head_bytes() const noexcept {
    return size_t{2} * kBlockPositions * (need.k_len + need.v_len);
  }
  // Of a head's K, [k_len][64] F16, and V, [64][v_len] F16.
  size_t k_offset(size_t head) const noexcept { return offset + head * head_bytes(); }
  size_t v_offset(size_t head) const noexcept {
    return k_offset(head) + size_t{2} * kBlockPositions * need.k_len;
  }
};

struct Group {
  uint32_t window = 0;
  size_t block_bytes = 0;
};

struct Layout {
  explicit Layout(const std::vector<LayerNeed>& needs);
  std::vector<LayerPlace> layers;
  std::vector<Group> groups;
};

}  // namespace billow::kv
