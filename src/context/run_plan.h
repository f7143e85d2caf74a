// What happens to a sequence's context while it writes: the decision before each token, and the
// whole course of a run predicted. The engine asks the same decision, so a run's events are the
// plan's. One thing is not planned: a text that becomes a long one (LongRoPE) is evaluated again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "context/compaction.h"
#include "context/ladder.h"

namespace billow::context {

enum class Step : uint8_t {
  kWrite,    // there is room
  kGrow,     // to another rung
  kCompact,  // the top is full
  kStop,     // the top is full, and the policy is to stop there
};

struct Decision {
  Step step = Step::kWrite;
  size_t rung = 0;        // where the sequence is then
  Compaction compaction;  // for kCompact
};

// How a sequence's context may develop.
struct ContextPlan {
  Ladder ladder;
  OverflowPolicy policy = OverflowPolicy::kRefill;
  CompactionOptions compaction;
  size_t n_anchor = 0;  // tokens that every compaction keeps: the prompt
};

// What must happen before n_new tokens (at least 1) can be evaluated behind n_held ones of a
// sequence on `rung`. A full context whose anchor is longer than compaction can keep is a kStop.
Decision decide(const ContextPlan& context_plan, size_t rung, size_t n_held, size_t n_new = 1);

// Throws Error (kTooLarge) with both numbers when the answer asked for may need a compaction, but
// the prompt is longer than one can keep.
void check_anchor(const ContextPlan& context_plan, int64_t num_predict);

struct ContextEvent {
  Step step = Step::kGrow;  // kGrow or kCompact
  size_t from = 0;          // rungs; equal for a compaction
  size_t to = 0;
  size_t n_held = 0;       // evaluated tokens when it happened
  size_t n_generated = 0;  // tokens of the answer by then
  Compaction compaction;
  bool operator==(const ContextEvent&) const = default;
};

struct RungTokens {
  size_t rung = 0;
  size_t n_generated = 0;  // tokens of the answer that were chosen on it
  bool operator==(const RungTokens&) const = default;
};

struct RunPlan {
  size_t first_rung = 0;
  std::vector<ContextEvent> events;
  std::vector<RungTokens> rungs;  // in the order of time
  size_t n_generated = 0;
  size_t n_held = 0;             // evaluated tokens at the end
  size_t n_evaluated_again = 0;  // by refills
  bool context_full = false;     // ended by kStop
  size_t n_compactions() const;
};

// The course of a run whose model never stops by itself: n_prompt tokens, then n_generate (at
// least 1) tokens, or as many as fit. A token is chosen from what was evaluated and takes a
// position only when the next one is wanted. Throws Error as Ladder::first does.
RunPlan plan_run(const ContextPlan& context_plan, size_t n_prompt, size_t n_generate);

}  // namespace billow::context
