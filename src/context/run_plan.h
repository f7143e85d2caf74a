// Plans how a sequence's context develops: the decision before each token, and the prediction of a
// whole run. The engine uses the same decisions, so a run's events equal the plan's. One event is
// not planned: a text that becomes a long one (LongRoPE) is evaluated again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "context/compaction.h"
#include "context/ladder.h"

namespace billow::context {

enum class Step : uint8_t {
  kWrite,    // the rung has free positions
  kGrow,     // moves to another rung
  kCompact,  // the top rung is full
  kStop,     // the top rung is full, and no compaction is possible
};

struct Decision {
  Step step = Step::kWrite;
  size_t rung = 0;        // the rung after the step
  Compaction compaction;  // for kCompact
};

// Parameters of a sequence's context.
struct ContextPlan {
  Ladder ladder;
  OverflowPolicy policy = OverflowPolicy::kRefill;
  CompactionOptions compaction;
  size_t n_anchor = 0;  // tokens that every compaction keeps: the prompt
};

// Decides what must happen before n_new tokens (at least 1) can be evaluated after the n_held
// tokens of a sequence on `rung`. Returns kStop if the context is full, and the policy is kStop or
// the anchor is longer than a compaction can keep.
Decision decide(const ContextPlan& context_plan, size_t rung, size_t n_held, size_t n_new = 1);

// Throws Error (kTooLarge) if an answer of num_predict tokens may need a compaction, but the prompt
// is longer than a compaction can keep. The message has the lengths of prompt and context.
void check_anchor(const ContextPlan& context_plan, int64_t num_predict);

struct ContextEvent {
  Step step = Step::kGrow;  // kGrow or kCompact
  size_t from = 0;          // rung before; equal to `to` for a compaction
  size_t to = 0;
  size_t n_held = 0;       // evaluated tokens before the event
  size_t n_generated = 0;  // tokens of the answer before the event
  Compaction compaction;
  bool operator==(const ContextEvent&) const = default;
};

struct RungTokens {
  size_t rung = 0;
  size_t n_generated = 0;  // tokens of the answer that were chosen on this rung
  bool operator==(const RungTokens&) const = default;
};

struct RunPlan {
  size_t first_rung = 0;
  std::vector<ContextEvent> events;
  std::vector<RungTokens> rungs;  // chronological
  size_t n_generated = 0;
  size_t n_held = 0;             // evaluated tokens at the end
  size_t n_evaluated_again = 0;  // by refills
  bool context_full = false;     // ended by kStop
  size_t n_compactions() const;
};

// Predicts a run whose model never stops by itself: n_prompt tokens, then n_generate (at least 1)
// tokens, or fewer if the context is full. A chosen token takes a position only when the next token
// is needed. Throws the same Error as Ladder::first.
RunPlan plan_run(const ContextPlan& context_plan, size_t n_prompt, size_t n_generate);

}  // namespace billow::context
