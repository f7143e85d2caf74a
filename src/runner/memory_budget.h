// What a runner is told that it may use of memory: plain data.
#pragma once

#include <cstdint>
#include <limits>

namespace billow::runner {

struct MemoryBudget {
  uint64_t bytes = 0;
  uint64_t version = 0;  // /health shows it once the budget is in force
  // What needs a budget above this is not to ask for it.
  uint64_t ceiling = std::numeric_limits<uint64_t>::max();
};

}  // namespace billow::runner
