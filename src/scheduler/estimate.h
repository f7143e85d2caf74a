// What a model takes of memory, from numbers of its header: pure arithmetic, which ends at the
// greatest number instead of running over. Context per request and requests at once are two
// parameters everywhere; neither is ever multiplied into the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace billow::scheduler {

struct ModelCost {
  uint64_t weight_bytes = 0;
  uint64_t scratch_bytes = 0;
  uint64_t kv_bytes_per_position = 0;  // of one sequence, all layers
};

constexpr uint64_t saturating_add(uint64_t a, uint64_t b) {
  return a > std::numeric_limits<uint64_t>::max() - b ? std::numeric_limits<uint64_t>::max()
                                                      : a + b;
}
constexpr uint64_t saturating_multiply(uint64_t a, uint64_t b) {
  return b != 0 && a > std::numeric_limits<uint64_t>::max() / b
             ? std::numeric_limits<uint64_t>::max()
             : a * b;
}

// The memory that n_parallel requests of n_context positions each keep their keys and values in.
constexpr uint64_t kv_bytes(const ModelCost& cost, size_t n_context, size_t n_parallel) {
  const uint64_t one = saturating_multiply(cost.kv_bytes_per_position, n_context);
  return saturating_multiply(one, n_parallel);
}

// All that a loaded model takes while n_parallel such requests run.
constexpr uint64_t model_bytes(const ModelCost& cost, size_t n_context, size_t n_parallel) {
  return saturating_add(saturating_add(cost.weight_bytes, cost.scratch_bytes),
                        kv_bytes(cost, n_context, n_parallel));
}

}  // namespace billow::scheduler
