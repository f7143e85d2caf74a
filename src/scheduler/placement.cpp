#include "scheduler/placement.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace billow::scheduler {
namespace {

std::vector<size_t> order_of_leaving(std::span<const Holder> holders) {
  std::vector<size_t> order(holders.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) {
    const Holder& h = holders[i];
    return std::tuple(!h.is_idle, !h.is_draining, h.session, h.key);
  });
  return order;
}

}  // namespace

Room make_room(std::span<const Holder> holders, uint64_t n_bytes, size_t n_places) {
  const std::vector<size_t> order = order_of_leaving(holders);
  std::vector<bool> leaves(holders.size(), false);
  uint64_t idle = 0;  // of models that stay loaded
  for (const Holder& holder : holders) idle += holder.idle_bytes;
  uint64_t freed = 0;
  Room room;
  const auto leave = [&](size_t i) {
    leaves[i] = true;
    freed += holders[i].granted_bytes;
    idle -= holders[i].idle_bytes;
    (holders[i].is_idle ? room.unloads : room.waits_for).push_back(i);
  };
  for (const size_t i : order) {
    if (n_places == 0) break;
    if (!holders[i].takes_the_place) continue;
    leave(i);
    --n_places;
  }
  for (const size_t i : order) {
    if (freed + idle >= n_bytes) break;
    if (!leaves[i]) leave(i);
  }
  uint64_t rest = n_bytes - std::min(n_bytes, freed);
  for (const size_t i : order) {
    const uint64_t bytes = leaves[i] ? 0 : std::min(rest, holders[i].idle_bytes);
    if (bytes == 0) continue;
    room.asks.push_back({i, bytes});
    rest -= bytes;
  }
  return room;
}

}  // namespace billow::scheduler
