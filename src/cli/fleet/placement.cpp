#include "cli/fleet/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <tuple>

#include "base/byte_size.h"
#include "base/error.h"

namespace billow::cli {
namespace {

using HostSet = std::vector<size_t>;

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::kInvalidInput, what); }

class Planner {
 public:
  explicit Planner(const Fleet& fleet)
      : fleet_(fleet),
        placed_(fleet.models.size()),
        has_(fleet.models.size(), std::vector<bool>(fleet.hosts.size())),
        is_full_(fleet.models.size()),
        used_(fleet.hosts.size()) {}

  std::vector<HostSet> run() {
    place_named();
    if (std::ranges::any_of(fleet_.models,
                            [](const FleetModel& model) { return model.hosts.empty(); }))
      check_memory();
    while (const std::optional<size_t> model = next_model()) add_replica(*model);
    check_replicas();
    place_tails();
    for (HostSet& hosts : placed_) std::ranges::sort(hosts);
    return placed_;
  }

 private:
  uint64_t need(size_t model) const { return fleet_.models[model].memory_bytes.value_or(0); }
  uint64_t room(size_t host) const {
    const uint64_t memory = fleet_.hosts[host].memory_bytes.value_or(UINT64_MAX);
    return memory - std::min(memory, used_[host]);
  }
  uint64_t tail_bytes() const {
    uint64_t largest = 0;
    for (size_t i = 0; i < placed_.size(); ++i)
      if (fleet_.models[i].is_tail) largest = std::max(largest, need(i));
    return largest;
  }
  void add(size_t model, size_t host) {
    placed_[model].push_back(host);
    has_[model][host] = true;
    used_[host] += need(model);
  }

  void place_named() {
    for (size_t i = 0; i < placed_.size(); ++i)
      for (const std::string& name : fleet_.models[i].hosts)
        add(i, static_cast<size_t>(std::ranges::find(fleet_.hosts, name, &FleetHost::name) -
                                   fleet_.hosts.begin()));
    for (size_t host = 0; host < used_.size(); ++host)
      if (const auto memory = fleet_.hosts[host].memory_bytes; memory && used_[host] > *memory)
        refuse(fmt::format("host '{}' has {}, and the models that name it need {}",
                           fleet_.hosts[host].name, format_byte_size(*memory),
                           format_byte_size(used_[host])));
  }

  void check_memory() const {
    for (const FleetHost& host : fleet_.hosts)
      if (!host.memory_bytes)
        refuse(
            fmt::format("host '{}' needs 'memory', because models without 'hosts' are placed "
                        "by the memory of the hosts",
                        host.name));
  }

  // The host with the most room that can take one more replica of the model.
  std::optional<size_t> best_host(size_t model) const {
    const uint64_t reserve = placed_[model].empty() ? 0 : tail_bytes();
    std::optional<size_t> best;
    for (size_t host = 0; host < used_.size(); ++host) {
      if (has_[model][host] || room(host) < need(model) || room(host) - need(model) < reserve)
        continue;
      if (!best || room(host) > room(*best)) best = host;
    }
    return best;
  }

  bool wants_more(size_t model) const {
    const FleetModel& wish = fleet_.models[model];
    return !is_full_[model] && !wish.is_tail && wish.hosts.empty() &&
           placed_[model].size() < wish.n_replicas.value_or(fleet_.hosts.size());
  }

  // The model that gets the next replica: the one with the fewest, and of these, the largest. A
  // model that wants a certain number comes before a model that takes what is left.
  std::optional<size_t> next_model() const {
    const auto rank = [&](size_t model) {
      const bool has_any = !placed_[model].empty();
      return std::tuple(has_any, has_any && !fleet_.models[model].n_replicas, placed_[model].size(),
                        UINT64_MAX - need(model));
    };
    std::optional<size_t> next;
    for (size_t model = 0; model < placed_.size(); ++model)
      if (wants_more(model) && (!next || rank(model) < rank(*next))) next = model;
    return next;
  }

  void add_replica(size_t model) {
    if (const std::optional<size_t> host = best_host(model)) return add(model, *host);
    if (placed_[model].empty()) refuse_model(model);
    is_full_[model] = true;  // room only shrinks, so this never changes again
  }

  uint64_t max_room() const {
    uint64_t largest = 0;
    for (size_t host = 0; host < used_.size(); ++host) largest = std::max(largest, room(host));
    return largest;
  }

  [[noreturn]] void refuse_model(size_t model) const {
    const FleetModel& wish = fleet_.models[model];
    refuse(fmt::format(
        "{}: model '{}' needs {}, and no host has more than {} left; add memory, or "
        "write tail = true for a model that may be unloaded",
        wish.where, wish.name, format_byte_size(need(model)), format_byte_size(max_room())));
  }

  void check_replicas() const {
    for (size_t i = 0; i < placed_.size(); ++i) {
      const FleetModel& wish = fleet_.models[i];
      if (!wish.n_replicas || placed_[i].size() >= *wish.n_replicas) continue;
      refuse(fmt::format("{}: model '{}': {} of {} replicas fit", wish.where, wish.name,
                         placed_[i].size(), *wish.n_replicas));
    }
  }

  void place_tails() {
    for (size_t i = 0; i < placed_.size(); ++i) {
      if (!fleet_.models[i].is_tail) continue;
      for (size_t host = 0; host < used_.size(); ++host)
        if (room(host) >= need(i)) placed_[i].push_back(host);
      if (placed_[i].empty())
        refuse(
            fmt::format("{}: model '{}' needs {}, and no host has more than {} left next to its "
                        "models",
                        fleet_.models[i].where, fleet_.models[i].name, format_byte_size(need(i)),
                        format_byte_size(max_room())));
    }
  }

  const Fleet& fleet_;
  std::vector<HostSet> placed_;         // per model, in the order of placement
  std::vector<std::vector<bool>> has_;  // [model][host]
  std::vector<bool> is_full_;           // per model: no host has room for one more replica
  std::vector<uint64_t> used_;          // per host: bytes
};

}  // namespace

Placement place(const Fleet& fleet) {
  const std::vector<HostSet> placed = Planner(fleet).run();
  Placement placement;
  placement.preloads.resize(fleet.hosts.size());
  for (size_t i = 0; i < placed.size(); ++i) {
    const FleetModel& model = fleet.models[i];
    const PoolKey key = model.is_tail ? PoolKey::kModel : PoolKey::kPrefix;
    auto pool = std::ranges::find_if(placement.pools, [&](const Pool& known) {
      return known.key == key && known.hosts == placed[i];
    });
    if (pool == placement.pools.end())
      pool = placement.pools.insert(pool, {.key = key, .hosts = placed[i]});
    pool->models.push_back(model.name);
    if (model.is_tail) continue;
    for (const size_t host : placed[i]) placement.preloads[host].push_back(model.name);
  }
  placement.others.key = fleet.models.empty() ? PoolKey::kPrefix : PoolKey::kModel;
  placement.others.hosts.resize(fleet.hosts.size());
  std::iota(placement.others.hosts.begin(), placement.others.hosts.end(), size_t{0});
  return placement;
}

}  // namespace billow::cli
