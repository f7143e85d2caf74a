// What a request takes of memory: pure arithmetic. Context per request and requests at once are two
// parameters everywhere; neither is ever multiplied into the other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/saturating.h"

namespace billow::scheduler {

struct ModelCost {
  uint64_t weight_bytes = 0;
  uint64_t scratch_bytes = 0;  // of passes with this request
  uint64_t kv_bytes = 0;       // of this request alone, with its adapters
};

// All that a loaded model takes while n_parallel such requests run.
constexpr uint64_t model_bytes(const ModelCost& cost, size_t n_parallel) {
  return saturating_add(saturating_add(cost.weight_bytes, cost.scratch_bytes),
                        saturating_multiply(cost.kv_bytes, n_parallel));
}

}  // namespace billow::scheduler
