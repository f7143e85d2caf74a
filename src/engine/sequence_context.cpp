#include "engine/sequence_context.h"

#include <algorithm>
#include <utility>

#include "engine/batcher.h"

namespace billow::engine {

std::optional<context::Compaction> SequenceContext::next_without_growth() const {
  context::ContextPlan context_plan = context_plan_;
  context_plan.ladder = context::Ladder(rung_);
  const context::Decision next = context::decide(context_plan, rung_, n_held_, rung_ - n_held_ + 1);
  if (next.step != context::Step::kCompact) return std::nullopt;
  return next.compaction;
}

void SequenceContext::compact(const context::Compaction& compaction) {
  n_dropped_ += compaction.drop;
  marks_.junction = 0;
  if (context_plan_.policy == context::OverflowPolicy::kShift) {
    n_held_ = compaction.keep;
    blocks_.open_gap(context_plan_.n_anchor, context_plan_.n_anchor + n_dropped_);
  } else {
    n_held_ = 0;
    blocks_.clear();
  }
}

size_t SequenceContext::rows_of_pass(size_t n) const noexcept {
  const size_t junction = marks_.junction * kv::kBlockPositions;
  return n_held_ < junction ? std::min(n, junction - n_held_) : n;
}

bool SequenceContext::take(size_t n, size_t n_draft, bool ends) {
  const size_t begin = slot_of(n_held_);
  const size_t end = begin + n + n_draft;
  marks_.ends = ends;
  if (!blocks_.grow(end) || !blocks_.grow_states(begin, begin + n, marks_)) return false;
  if (n_draft != 0 && !blocks_.grow_draft(begin + n, end)) return false;
  n_held_ += n + n_draft;
  // Early enough that a generating sequence does not wait for the system, and late enough that no
  // memory is allocated without need.
  constexpr size_t kAhead = 8;
  const auto block_ahead = [](size_t position) {
    return (position + kAhead) / kv::kBlockPositions;
  };
  if (end - begin < kv::kBlockPositions && block_ahead(begin) != block_ahead(end))
    blocks_.prepare_next();
  return true;
}

size_t SequenceContext::draft_room(size_t n) const noexcept {
  if (!blocks_.has_states()) return SIZE_MAX;
  const size_t begin = slot_of(n_held_ + n);
  return std::min(kMaxWritten, kv::kBlockPositions - begin % kv::kBlockPositions);
}

size_t SequenceContext::settle_draft() {
  if (!blocks_.has_states()) return 0;
  const size_t n_owned = n_held_;
  n_held_ = blocks_.settle_draft(n_owned);
  return n_owned - n_held_;
}

size_t SequenceContext::match_prefix(kv::PrefixIndex& index, std::span<const int32_t> tokens) {
  const kv::PrefixIndex::Shared shared = index.match(tokens, tokens.size() - 1, blocks_, marks_);
  n_held_ = shared.n_tokens;
  const bool has_junction =
      blocks_.has_states() && shared.n_known_blocks > n_held_ / kv::kBlockPositions;
  marks_.junction = has_junction ? shared.n_known_blocks : 0;
  return n_held_;
}

void SequenceContext::insert(kv::PrefixIndex& index, std::span<const int32_t> tokens,
                             bool ends) const {
  kv::TextMarks marks = marks_;
  marks.ends = marks.ends || ends;
  index.insert(tokens.first(n_held_), blocks_, marks);
}

void SequenceContext::release_shared() {
  blocks_.clear();
  n_held_ = 0;
  marks_.junction = 0;
}

uint64_t SequenceContext::release() {
  blocks_.clear();
  return std::exchange(granted_bytes_, 0);
}

}  // namespace billow::engine
