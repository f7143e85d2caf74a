// Places the models of a fleet on its hosts, from the memory of each. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/fleet/hosts_file.h"

namespace billow::cli {

// What keeps requests together on a host.
enum class PoolKey : uint8_t {
  kPrefix,  // the model and the head of the conversation: the cached prefix counts
  kModel,   // the model alone, so that one host loads it
};

// Models with the same hosts and the same key. A model belongs to one pool.
struct Pool {
  PoolKey key = PoolKey::kPrefix;
  std::vector<size_t> hosts;          // positions in Fleet::hosts, in ascending order
  std::vector<std::string> models{};  // in the order of the file
  bool operator==(const Pool&) const = default;
};

struct Placement {
  std::vector<Pool> pools;  // in the order of their first models
  // Serves models that the file does not name: all hosts.
  Pool others{};
  // The models that each host keeps loaded, in the order of the file.
  std::vector<std::vector<std::string>> preloads;
};

// Places models by these rules:
// - A model with `hosts` runs there.
// - Each other model gets one host, the largest first: the host with the most memory left.
// - Then models get further hosts while there is room, those with the fewest hosts first: up to
//   `replicas`, or all. Room for the largest model with `tail` stays free on each host.
// - A model with `tail` can be loaded by all hosts that have room for it in addition to their
// models.
// - Models that the file does not name: if it names none, their key is the prefix, else the model.
// Throws Error (kInvalidInput) if a model does not fit, or a host lacks `memory`.
Placement place(const Fleet& fleet);

}  // namespace billow::cli
