#include "context/run_plan.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace billow::context {

Decision decide(const ContextPlan& context_plan, size_t rung, size_t n_held, size_t n_new) {
  if (n_new <= rung - std::min(rung, n_held)) return {Step::kWrite, rung, {}};
  if (const size_t wider = context_plan.ladder.holding(n_held + n_new); wider != 0)
    return {Step::kGrow, wider, {}};
  const bool may_compact = context_plan.policy != OverflowPolicy::kStop && n_held >= 2 &&
                           context_plan.n_anchor <= longest_anchor(n_held);
  if (!may_compact) return {Step::kStop, rung, {}};
  return {Step::kCompact, rung,
          plan_compaction(n_held, context_plan.n_anchor, context_plan.compaction)};
}

void check_anchor(const ContextPlan& context_plan, int64_t num_predict) {
  const size_t max = context_plan.ladder.top();
  const size_t n_prompt = context_plan.n_anchor;
  const bool may_overflow =
      num_predict > 0 && static_cast<size_t>(num_predict) > max - std::min(n_prompt, max);
  if (context_plan.policy == OverflowPolicy::kStop || !may_overflow ||
      n_prompt <= longest_anchor(max))
    return;
  throw Error(
      ErrorCode::kTooLarge,
      "the prompt has " + std::to_string(n_prompt) + " tokens, more than half of the context of " +
          std::to_string(max) +
          ", so an answer that fills the context cannot continue; shorten the prompt, ask for "
          "fewer tokens or allow a larger context");
}

size_t RunPlan::n_compactions() const {
  return static_cast<size_t>(std::ranges::count(events, Step::kCompact, &ContextEvent::step));
}

RunPlan plan_run(const ContextPlan& context_plan, size_t n_prompt, size_t n_generate) {
  RunPlan plan;
  size_t rung = context_plan.ladder.first(n_prompt);
  plan.first_rung = rung;
  plan.n_held = n_prompt;
  for (;;) {
    // All tokens up to the one whose position is beyond the rung.
    const size_t n = std::min(rung - plan.n_held, n_generate - plan.n_generated - 1) + 1;
    if (plan.rungs.empty() || plan.rungs.back().rung != rung) plan.rungs.push_back({rung, 0});
    plan.rungs.back().n_generated += n;
    plan.n_generated += n;
    plan.n_held += n - 1;
    if (plan.n_generated >= n_generate) return plan;
    const Decision next = decide(context_plan, rung, plan.n_held);
    if (next.step == Step::kStop) {
      plan.context_full = true;
      return plan;
    }
    plan.events.push_back(
        {next.step, rung, next.rung, plan.n_held, plan.n_generated, next.compaction});
    if (next.step == Step::kCompact) {
      plan.n_held = next.compaction.keep;
      if (context_plan.policy == OverflowPolicy::kRefill) plan.n_evaluated_again += plan.n_held;
    }
    rung = next.rung;
    ++plan.n_held;
  }
}

}  // namespace billow::context
