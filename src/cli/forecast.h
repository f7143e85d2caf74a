// Computes which context a request would get and how much memory it would need. Uses only the
// options and the model's header; reads no weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/engine_options.h"
#include "context/run_plan.h"
#include "context/sizing.h"
#include "engine/describe.h"

namespace billow::cli {

// The options as given; forecast() and request_memory() check them.
struct PlanOptions {
  std::string model;
  int64_t n_prompt = 0;
  int64_t num_predict = context::kUnlimited;
  int64_t n_parallel = 1;
  int64_t num_ctx = 0;
  std::string num_ctx_policy = "ignore";
  int64_t max_context = 0;
  std::vector<int64_t> sizes;
  std::string overflow_policy = "refill";
  int64_t reserve_batches = 9;
  int64_t overflow_batch = 64;
  std::string kv_type = "f16";
  int64_t n_threads = 0;
  std::string memory = kDefaultMemory;
  bool json = false;

  bool caps() const { return num_ctx > 0 && num_ctx_policy == "cap"; }
};

// How the context of one request grows and is compacted.
struct Forecast {
  context::Size size;
  context::ContextPlan context_plan;
  context::RunPlan plan = {};  // complete, or long enough to show what repeats
  // The first compaction; later ones are the same.
  std::optional<context::ContextEvent> compaction = {};
  // Both are absent if only the model ends the answer.
  std::optional<uint64_t> n_generated = {};
  std::optional<uint64_t> n_compactions = {};

  size_t last_rung() const { return plan.rungs.back().rung; }
  size_t again_each() const {
    const bool refills = context_plan.policy == context::OverflowPolicy::kRefill;
    return compaction && refills ? compaction->compaction.keep : 0;
  }
};

struct RungBytes {
  size_t rung = 0;
  uint64_t one = 0;  // KV bytes of one request
};

struct RequestMemory {
  uint64_t file = 0;    // bytes, as all sizes here
  uint64_t mapped = 0;  // part of the file that stays in use next to packed weights
  uint64_t packed = 0;
  uint64_t kv_token = 0;         // KV of one token in all layers
  uint64_t state = 0;            // recurrent states of a sequence of any length
  uint64_t kv_window_token = 0;  // part of kv_token in layers with a window
  std::vector<RungBytes> rungs;
  uint64_t scratch_start = 0;
  uint64_t scratch_max = 0;
  uint64_t usable = 0;
  uint64_t budget = 0;
  size_t n_parallel = 1;

  uint64_t start() const {
    return mapped + packed + scratch_start + rungs.front().one * n_parallel;
  }
  uint64_t max() const { return mapped + packed + scratch_max + rungs.back().one * n_parallel; }
  bool fits() const { return max() <= budget; }
};

// Predicts how the context of a request grows. Throws Error if an option is out of range or the
// prompt does not fit; the message names the option, or both sizes.
Forecast forecast(const PlanOptions& options, const engine::Description& model);
// Returns the options for describe(). Throws Error if an option is out of range; the message names
// it.
engine::DescribeOptions describe_options(const PlanOptions& options);
// Computes the memory of a request. REQUIRES: `model` is the result of describe() with
// describe_options(options).
RequestMemory request_memory(const PlanOptions& options, const engine::Description& model,
                             const Forecast& run);

}  // namespace billow::cli
