#include "engine/sequence_context.h"

namespace billow::engine {

std::optional<context::Compaction> SequenceContext::next_without_growth() const {
  context::Course course = course_;
  course.ladder = context::Ladder(rung_);
  const context::Decision next = context::decide(course, rung_, n_held_, rung_ - n_held_ + 1);
  if (next.step != context::Step::kCompact) return std::nullopt;
  return next.compaction;
}

void SequenceContext::compact(const context::Compaction& compaction) {
  n_dropped_ += compaction.drop;
  if (course_.policy == context::OverflowPolicy::kShift) {
    n_held_ = compaction.keep;
    blocks_.open_gap(course_.n_anchor, course_.n_anchor + n_dropped_);
  } else {
    n_held_ = 0;
    blocks_.clear();
  }
}

bool SequenceContext::take(size_t n) {
  const size_t begin = slot_of(n_held_);
  blocks_.forget_before_window(begin);
  if (!blocks_.grow(begin + n)) return false;
  n_held_ += n;
  return true;
}

void SequenceContext::clear() { blocks_.clear(); }

}  // namespace billow::engine
