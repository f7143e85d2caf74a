// Offsets of each layer's and head's keys and values in a block. Layers with the same window share
// a group. A block of a group holds 64 positions of all its layers, so one table of block ids is
// enough for the group. A group with a window needs blocks for its window only. The recurrent
// states of all layers form a separate group. One block of that group holds the states after one
// position, at most one block per 64 positions. Pure arithmetic.
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

// What one layer stores: keys and values of each position, and a recurrent state.
struct LayerNeed {
  uint32_t n_heads = 0;
  uint32_t k_len = 0;  // values of one key; v_len: of one value
  uint32_t v_len = 0;
  uint32_t window = 0;  // number of positions that a query sees, including its own; 0: all
  bool has_key_bias = false;
  size_t state_floats = 0;  // of a recurrent state; independent of positions; 0: none
};

struct LayerPlace {
  uint32_t group = 0;       // of the layer's keys and values, if it has any
  size_t offset = 0;        // of the layer in a block, in bytes
  size_t state_offset = 0;  // of the layer's state in a block of states, in bytes
  LayerNeed need;
  kernels::KvTypes types;
  // Bytes of one head: its K, then its V, each in the format of kernels/kv_block.h.
  size_t head_bytes() const noexcept {
    return kernels::kv_bytes(types.k, need.k_len) + kernels::kv_bytes(types.v, need.v_len);
  }
  size_t k_offset(size_t head) const noexcept { return offset + head * head_bytes(); }
  size_t v_offset(size_t head) const noexcept {
    return k_offset(head) + kernels::kv_bytes(types.k, need.k_len);
  }
};

using Group = context::KvGroup;

struct Layout {
  // `n_draft_states`: KvGroup::n_draft_states of the group of states, if the model has one. The
  // types of a layer are kv_types(type, has_key_bias).
  Layout(const std::vector<LayerNeed>& needs, KvType type, size_t n_draft_states = 0);

  // See context::kv_bytes().
  size_t bytes_for(size_t n_positions, size_t n_batch, bool with_gap = false) const;
  // Sum over the groups of keys and values: bytes of one block of each.
  size_t block_bytes() const noexcept;
  size_t state_bytes() const noexcept;  // of one sequence at one position
  std::vector<LayerPlace> layers;
  std::vector<Group> groups;
  std::optional<uint32_t> states;  // index of the group of states; none: no layer has a state
};

}  // namespace billow::kv
