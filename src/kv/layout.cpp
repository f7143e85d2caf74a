#include "kv/layout.h"

#include <algorithm>

namespace billow::kv {

Layout::Layout(const std::vector<LayerNeed>& needs, KvType type) {
  for (const LayerNeed& need : needs) {
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
      return group.window == need.window;
    });
    LayerPlace place;
    place.group = static_cast<uint32_t>(found - groups.begin());
    place.need = need;
    place.type = type;
    if (found == groups.end()) groups.push_back({.block_bytes = 0, .window = need.window});
    Group& group = groups[place.group];
    place.offset = group.block_bytes;
    group.block_bytes += need.n_heads * place.head_bytes();
    layers.push_back(place);
  }
}

size_t Layout::block_bytes() const noexcept {
  size_t sum = 0;
  for (const Group& group : groups) sum += group.block_bytes;
  return sum;
}

size_t Layout::bytes_for(size_t n_positions, size_t n_batch, bool with_gap) const {
  return context::kv_bytes(groups, kBlockPositions, n_positions, n_batch, with_gap);
}

}  // namespace billow::kv
