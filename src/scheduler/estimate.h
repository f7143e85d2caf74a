// Memory cost of a request. Pure arithmetic. Context per request and parallel requests are always
// two separate parameters; neither is multiplied into the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/saturating.h"

namespace billow::scheduler {

struct ModelCost {
  uint64_t weight_bytes = 0;
  uint64_t scratch_bytes = 0;  // of passes with this request
  uint64_t kv_bytes = 0;       // of this request only
  // Memory of its adapters. Requests of the model with the same `adapters` share it.
  uint64_t adapter_bytes = 0;
  std::string adapters{};  // identifies the adapters; empty: none
};

// Returns the memory of a loaded model while n_parallel such requests run.
inline uint64_t model_bytes(const ModelCost& cost, size_t n_parallel) {
  return saturating_add(
      saturating_add(saturating_add(cost.weight_bytes, cost.scratch_bytes), cost.adapter_bytes),
      saturating_multiply(cost.kv_bytes, n_parallel));
}

}  // namespace billow::scheduler
