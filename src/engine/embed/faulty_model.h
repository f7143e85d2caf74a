// Models whose passes lack memory when they are told to: for tests, and for operators who want to
// see what retries look like in the log and in the metrics.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "engine/embed/model.h"

namespace billow::engine {

// Which allocations of passes fail. A pass allocates once, for all its tokens, and once more for
// each smaller pass that it is tried again in.
struct EmbedFaults {
  size_t every = 0;         // each n-th, counted from the load over all passes; 0: none
  size_t above_tokens = 0;  // those for more tokens; 0: none

  bool any() const noexcept { return every > 0 || above_tokens > 0; }
};

// The same models, with these faults; as they are where there are none. They share one count.
std::vector<std::unique_ptr<EmbedModel>> with_faults(
    std::vector<std::unique_ptr<EmbedModel>> models, const EmbedFaults& faults);

}  // namespace billow::engine
