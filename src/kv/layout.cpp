#include "kv/layout.h"

#include <algorithm>
#include <bit>

namespace billow::kv {
namespace {

constexpr size_t kStateAlignment = 64;

size_t state_bytes_of(const LayerNeed& need) {
  const size_t n_bytes = need.state_floats * sizeof(float);
  return (n_bytes + kStateAlignment - 1) / kStateAlignment * kStateAlignment;
}

// Kept states take about as much memory as the KV next to them, but one is kept at least every
// 2,048 positions.
size_t stride_for(size_t state_bytes, size_t kv_bytes) {
  constexpr size_t kLargest = 32;
  if (kv_bytes == 0 || state_bytes / kv_bytes >= kLargest) return kLargest;
  return std::bit_ceil(std::max<size_t>(1, state_bytes / kv_bytes));
}

}  // namespace

Layout::Layout(const std::vector<LayerNeed>& needs, KvType type, size_t n_draft_states) {
  size_t n_state_bytes = 0;
  for (const LayerNeed& need : needs) {
    LayerPlace place;
    place.need = need;
    place.types = kernels::kv_types(type, need.has_key_bias);
    place.state_offset = n_state_bytes;
    n_state_bytes += state_bytes_of(need);
    if (need.n_heads != 0) {
      const auto found = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
        return group.window == need.window;
      });
      place.group = static_cast<uint32_t>(found - groups.begin());
      if (found == groups.end()) groups.push_back({.block_bytes = 0, .window = need.window});
      Group& group = groups[place.group];
      place.offset = group.block_bytes;
      group.block_bytes += need.n_heads * place.head_bytes();
    }
    layers.push_back(place);
  }
  if (n_state_bytes == 0) return;
  const size_t stride = stride_for(n_state_bytes, block_bytes());
  states = static_cast<uint32_t>(groups.size());
  groups.push_back({.block_bytes = n_state_bytes,
                    .window = 0,
                    .state_stride = stride,
                    .n_draft_states = n_draft_states});
}

size_t Layout::block_bytes() const noexcept {
  size_t sum = 0;
  for (const Group& group : groups)
    if (group.state_stride == 0) sum += group.block_bytes;
  return sum;
}

size_t Layout::state_bytes() const noexcept { return states ? groups[*states].block_bytes : 0; }

size_t Layout::bytes_for(size_t n_positions, size_t n_batch, bool with_gap) const {
  return context::kv_bytes(groups, kBlockPositions, n_positions, n_batch, with_gap);
}

}  // namespace billow::kv
