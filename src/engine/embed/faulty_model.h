// Models whose passes lack memory on purpose: for tests, and for operators who want to see what
// retries look like in the log and in the metrics.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "engine/embed/model.h"

namespace billow::engine {

// Which allocations of passes fail. A pass allocates once for all its tokens, and once for each
// smaller pass of a retry.
struct EmbedFaults {
  size_t every = 0;         // every n-th allocation of all passes since the load; 0: none
  size_t above_tokens = 0;  // allocations for more tokens than this; 0: none

  bool any() const noexcept { return every > 0 || above_tokens > 0; }
};

// Returns the models with these faults, or unchanged if there are none. The models share one
// counter.
std::vector<std::unique_ptr<EmbedModel>> with_faults(
    std::vector<std::unique_ptr<EmbedModel>> models, const EmbedFaults& faults);

}  // namespace billow::engine
