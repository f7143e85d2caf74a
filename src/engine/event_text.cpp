#include "engine/event_text.h"

#include <fmt/format.h>

#include "base/json.h"

namespace billow::engine {
namespace {

bool is_transition(const SequenceEvent& event) { return event.event.step == context::Step::kGrow; }

double milliseconds(const SequenceEvent& event) {
  return std::chrono::duration<double, std::milli>(event.time).count();
}

std::string compaction_text(const context::ContextEvent& event) {
  return fmt::format("ctx{} drop={} keep={}", event.from, event.compaction.drop,
                     event.compaction.keep);
}

}  // namespace

std::string event_line(const SequenceEvent& event) {
  const std::string what = is_transition(event)
                               ? fmt::format("[transition] ctx{} -> ctx{} at tokens={}",
                                             event.event.from, event.event.to, event.event.n_held)
                               : "[compact] " + compaction_text(event.event);
  return fmt::format("{} ({:.1f} ms, avg decode {:.1f} t/s)", what, milliseconds(event),
                     event.decode_rate);
}

std::string event_summary(const SequenceEvent& event) {
  const std::string what = is_transition(event)
                               ? fmt::format("ctx{}->ctx{} at token_count={}", event.event.from,
                                             event.event.to, event.event.n_held)
                               : compaction_text(event.event);
  return fmt::format("{} ({:.1f} ms)", what, milliseconds(event));
}

size_t evaluated_again(const SequenceEvent& event) {
  return event.refills ? event.event.compaction.keep : 0;
}

Json event_json(const SequenceEvent& event) {
  const context::ContextEvent& what = event.event;
  Json out;
  if (is_transition(event)) {
    out = {{"type", "transition"}, {"from", what.from}, {"to", what.to}};
  } else {
    out = {{"type", "compaction"},
           {"context", what.from},
           {"drop", what.compaction.drop},
           {"keep", what.compaction.keep},
           {"anchor", what.compaction.anchor},
           {"tokens_evaluated_again", evaluated_again(event)}};
  }
  out["tokens"] = what.n_held;
  out["ms"] = milliseconds(event);
  out["avg_decode_tps"] = event.decode_rate;
  if (event.restarts) out["restarts"] = true;
  return out;
}

}  // namespace billow::engine
