#include "engine/sequence_context.h"

#include <utility>

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
  const size_t end = slot_of(n_held_) + n;
  if (!blocks_.grow(end)) return false;
  n_held_ += n;
  // Soon enough for a token not to wait for the system, late enough to take no memory in vain.
  constexpr size_t kAhead = 8;
  if (end % kv::kBlockPositions == kv::kBlockPositions - kAhead) blocks_.prepare_next();
  return true;
}

size_t SequenceContext::share(kv::PrefixIndex& index, std::span<const int32_t> tokens) {
  n_held_ = index.share(tokens, tokens.size() - 1, blocks_);
  return n_held_;
}

void SequenceContext::publish(kv::PrefixIndex& index, std::span<const int32_t> tokens) const {
  index.add(tokens.first(n_held_), blocks_);
}

void SequenceContext::unshare() {
  blocks_.clear();
  n_held_ = 0;
}

uint64_t SequenceContext::release() {
  blocks_.clear();
  return std::exchange(granted_bytes_, 0);
}

}  // namespace billow::engine
