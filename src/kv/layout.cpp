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
    if (found == groups.end()) groups.push_back({need.window, 0});
    Group& group = groups[place.group];
    place.offset = group.block_bytes;
    group.block_bytes += need.n_heads * place.head_bytes();
    layers.push_back(place);
  }
}

}  // namespace billow::kv
