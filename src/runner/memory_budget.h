// The memory budget that the server sets for a runner. Plain data.
#pragma once

#include <cstdint>
#include <limits>

namespace billow::runner {

struct MemoryBudget {
  uint64_t bytes = 0;
  uint64_t version = 0;  // /health shows it after the budget takes effect
  // The runner does not ask the server for more than this.
  uint64_t ceiling = std::numeric_limits<uint64_t>::max();
};

}  // namespace billow::runner
