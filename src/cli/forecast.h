// What a request would be given, and what memory it would take: reckoned from options and a model's
// header, no weight is read.
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

// As given: forecast() and request_memory() say what is wrong with them.
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

// How one request's context develops.
struct Forecast {
  context::Size size;
  context::ContextPlan context_plan;
  context::RunPlan plan = {};  // whole, or as far as it takes to see what repeats
  // The first one; the others are like it.
  std::optional<context::ContextEvent> compaction = {};
  // Absent where nothing but the model ends the answer.
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
  uint64_t one = 0;  // KV of one request
};

struct RequestMemory {
  uint64_t file = 0;
  uint64_t mapped = 0;  // of the file, what is used beside packed weights
  uint64_t packed = 0;
  uint64_t kv_token = 0;         // KV of a token in all layers
  uint64_t state = 0;            // recurrent states of a sequence, however long it is
  uint64_t kv_window_token = 0;  // of it, in layers that drop it when their window has passed
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

// Throws Error naming the option that is out of range, or both numbers where a prompt does not fit.
Forecast forecast(const PlanOptions& options, const engine::Description& model);
// How the model is described for these options. Throws Error naming the one that is out of range.
engine::DescribeOptions describe_options(const PlanOptions& options);
// `model` is what describe() says with those options.
RequestMemory request_memory(const PlanOptions& options, const engine::Description& model,
                             const Forecast& run);

}  // namespace billow::cli
