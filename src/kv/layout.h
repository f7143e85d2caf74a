// Where in a block the keys and values of each layer and head lie. Layers of the same window share
// a group: a block of a group holds 64 positions of all its layers, so one table of block ids
// serves them all, and a group with a window needs blocks for its window only. Recurrent states of
// all layers have a group of their own, whose blocks hold the states behind 64 positions. Pure
// arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "context/memory_need.h"
#include "kernels/kv_block.h"

namespace billow::kv {

using kernels::kBlockPositions;
using kernels::KvType;

// What one layer keeps: keys and values of each position, and a recurrent state.
struct LayerNeed {
  uint32_t n_heads = 0;
  uint32_t k_len = 0;  // values of a key; of a value below
  uint32_t v_len = 0;
  uint32_t window = 0;      // positions that a query sees, itself included; 0: all
  size_t state_floats = 0;  // of a recurrent state, which does not grow with positions; 0: none
};

struct LayerPlace {
  uint32_t group = 0;       // of its keys and values, if it has any
  size_t offset = 0;        // of the layer in a block, bytes
  size_t state_offset = 0;  // of the layer's state in a block of states, bytes
  LayerNeed need;
  KvType type = KvType::kInt16;
  // Of one head: its K, then its V, each as kernels/kv_block.h says.
  size_t head_bytes() const noexcept {
    return kernels::kv_bytes(type, need.k_len) + kernels::kv_bytes(type, need.v_len);
  }
  size_t k_offset(size_t head) const noexcept { return offset + head * head_bytes(); }
  size_t v_offset(size_t head) const noexcept {
    return k_offset(head) + kernels::kv_bytes(type, need.k_len);
  }
};

using Group = context::KvGroup;

struct Layout {
  // `n_draft_states`: KvGroup::n_draft_states of the states, if there are any.
  Layout(const std::vector<LayerNeed>& needs, KvType type, size_t n_draft_states = 0);

  // context::kv_bytes()
  size_t bytes_for(size_t n_positions, size_t n_batch, bool with_gap = false) const;
  // Of one block of each group of keys and values.
  size_t block_bytes() const noexcept;
  size_t state_bytes() const noexcept;  // of the states of one sequence at one position
  std::vector<LayerPlace> layers;
  std::vector<Group> groups;
  std::optional<uint32_t> states;  // the group of states; none: no layer has one
};

}  // namespace billow::kv
