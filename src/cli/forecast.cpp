#include "cli/forecast.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "base/error.h"
#include "cpu/memory.h"

namespace billow::cli {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 30;

size_t checked(const char* option, int64_t value, int64_t min, int64_t max) {
  if (value < min || value > max) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("{} is {}; give a number from {} to {}", option, value, min, max));
  }
  return static_cast<size_t>(value);
}

context::OverflowPolicy wanted_policy(const PlanOptions& options) {
  // kFillContext means: stop when the context is full.
  if (options.overflow_policy == "stop" || options.num_predict == context::kFillContext)
    return context::OverflowPolicy::kStop;
  return options.overflow_policy == "shift" ? context::OverflowPolicy::kShift
                                            : context::OverflowPolicy::kRefill;
}

context::Ladder ladder_of(const std::vector<int64_t>& wanted, size_t top) {
  std::vector<size_t> sizes;
  for (const int64_t size : wanted)
    sizes.push_back(checked("--context-sizes", size, 1, kMaxTokens));
  return sizes.empty() ? context::Ladder(top) : context::Ladder(sizes, top);
}

context::RunPlan plan_of(const context::ContextPlan& context_plan, size_t n_prompt,
                         int64_t num_predict) {
  if (num_predict == 0) {  // only the prompt is evaluated
    context::RunPlan plan;
    plan.first_rung = context_plan.ladder.first(n_prompt);
    plan.rungs.push_back({plan.first_rung, 0});
    plan.n_held = n_prompt;
    return plan;
  }
  // After the second compaction, everything repeats.
  const size_t enough = 3 * context_plan.ladder.top() + 2;
  const size_t n = num_predict < 0 ? enough : std::min(enough, static_cast<size_t>(num_predict));
  return context::plan_run(context_plan, n_prompt, n);
}

context::Size size_of(const PlanOptions& options, size_t n_prompt, size_t model_context) {
  const size_t limit = checked("--max-context-size", options.max_context, 0, kMaxTokens);
  const size_t num_ctx = checked("--num-ctx", options.num_ctx, 0, kMaxTokens);
  return context::right_size(
      {.n_prompt = n_prompt,
       .num_predict = options.num_predict,
       .max_context = limit == 0 ? model_context : std::min(limit, model_context),
       .num_ctx_cap = options.caps() ? num_ctx : 0});
}

context::ContextPlan context_plan_of(const PlanOptions& options, size_t n_prompt,
                                     size_t max_context, const arch::ModelInfo& model) {
  const context::Ladder ladder = ladder_of(options.sizes, max_context);
  return {
      .ladder = ladder,
      .policy = context::possible_policy(wanted_policy(options), model.can_shift(ladder.top())),
      .compaction = {checked("--overflow-reserve-batches", options.reserve_batches, 0, kMaxTokens),
                     checked("--overflow-batch", options.overflow_batch, 1, kMaxTokens)},
      .n_anchor = n_prompt};
}

}  // namespace

Forecast forecast(const PlanOptions& options, const engine::Description& model) {
  const size_t n_prompt = checked("--prompt-tokens", options.n_prompt, 1, kMaxTokens);
  const context::Size size = size_of(options, n_prompt, model.max_context);
  Forecast run{.size = size,
               .context_plan = context_plan_of(options, n_prompt, size.max_context, model.model)};
  context::check_anchor(run.context_plan, options.num_predict);
  run.plan = plan_of(run.context_plan, n_prompt, options.num_predict);
  const auto first =
      std::ranges::find(run.plan.events, context::Step::kCompact, &context::ContextEvent::step);
  if (first != run.plan.events.end()) run.compaction = *first;
  if (run.plan.context_full) {
    run.n_generated = run.plan.n_generated;
    run.n_compactions = 0;
  } else if (options.num_predict >= 0) {
    const auto n = static_cast<uint64_t>(options.num_predict);
    run.n_generated = n;
    // A compaction makes room for `drop` tokens. The last token needs no room.
    run.n_compactions =
        run.compaction ? (n - 1 - run.compaction->n_generated) / run.compaction->compaction.drop + 1
                       : 0;
  }
  return run;
}

engine::DescribeOptions describe_options(const PlanOptions& options) {
  return {.n_parallel = checked("--parallel", options.n_parallel, 1, 1024),
          .n_threads = static_cast<int>(checked("--threads", options.n_threads, 0, 1024)),
          .kv_type = kv_type_of(options.kv_type)};
}

RequestMemory request_memory(const PlanOptions& options, const engine::Description& model,
                             const Forecast& run) {
  const context::MemoryNeed& need = model.memory;
  RequestMemory memory;
  memory.n_parallel = describe_options(options).n_parallel;
  memory.file = model.file_bytes;
  memory.mapped = model.mapped_bytes;
  memory.packed = model.packed_bytes;
  for (const context::KvGroup& group : need.kv_groups) {
    if (group.state_stride != 0) {
      memory.state = group.block_bytes;
      continue;
    }
    memory.kv_token += group.block_bytes / need.block_positions;
    if (group.window != 0) memory.kv_window_token += group.block_bytes / need.block_positions;
  }
  const bool with_gap = run.context_plan.policy == context::OverflowPolicy::kShift;
  for (const context::RungTokens& part : run.plan.rungs)
    memory.rungs.push_back({part.rung, need.kv_bytes(part.rung, with_gap)});
  memory.scratch_start = need.scratch_bytes(run.plan.first_rung);
  memory.scratch_max = need.scratch_bytes(run.last_rung());
  memory.usable = cpu::usable_memory();
  memory.budget = parse_byte_size(options.memory, memory.usable);
  return memory;
}

}  // namespace billow::cli
