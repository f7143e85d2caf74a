// Where a sequence stands in its context: how far its memory may grow now, which of its tokens are
// evaluated, which were dropped, and the blocks that hold the KV. Changed by the Engine and its
// KvMemory alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "context/run_plan.h"
#include "kv/block_table.h"
#include "kv/prefix_index.h"

namespace billow::engine {

class SequenceContext {
 public:
  SequenceContext(kv::Cache& cache, context::ContextPlan context_plan, size_t rung)
      : context_plan_(std::move(context_plan)), rung_(rung), blocks_(cache) {}

  const context::ContextPlan& context_plan() const noexcept { return context_plan_; }
  size_t rung() const noexcept { return rung_; }            // tokens that it may hold now
  size_t n_held() const noexcept { return n_held_; }        // tokens whose KV is there
  size_t n_dropped() const noexcept { return n_dropped_; }  // all of them behind the anchor
  // Its text is longer than what the model rotates as short ones (arch::ModelInfo::short_text).
  bool is_long() const noexcept { return marks_.is_long; }
  uint64_t granted_bytes() const noexcept { return granted_bytes_; }  // 0: it has not begun
  const kv::BlockTable& blocks() const noexcept { return blocks_; }

  // Where in all of the sequence's tokens the one at a position of the context is.
  size_t index_of(size_t position) const noexcept {
    return position < context_plan_.n_anchor ? position : position + n_dropped_;
  }
  // Where its KV lies. A shift leaves KV where it is, so what follows goes on behind a gap.
  size_t slot_of(size_t position) const noexcept {
    return context_plan_.policy == context::OverflowPolicy::kShift ? index_of(position) : position;
  }

  // What must happen before n_new tokens can be evaluated.
  context::Decision next(size_t n_new) const {
    return context::decide(context_plan_, rung_, n_held_, n_new);
  }
  // The compaction that makes room on this rung, where no wider one is to be had and the policy
  // allows it.
  std::optional<context::Compaction> next_without_growth() const;
  // To a rung, with all bytes of memory that are granted then.
  void grow(size_t rung, uint64_t granted_bytes) noexcept {
    rung_ = rung;
    granted_bytes_ = granted_bytes;
  }
  // From here on the text is a long one. REQUIRES: nothing is held.
  void set_long() noexcept { marks_.is_long = true; }
  // Evaluated with this adapter. REQUIRES: nothing is held.
  void set_adapter(uint64_t number) noexcept { marks_.adapter = number; }
  // Drops what a compaction drops. A refill leaves nothing evaluated.
  void compact(const context::Compaction& compaction);
  // Gives back what no window sees from the next token on; whether there was any.
  bool evict_out_of_window() { return blocks_.evict_before_window(slot_of(n_held_)); }
  // How many of n tokens the next pass may evaluate: up to where a state is to be kept.
  size_t rows_of_pass(size_t n) const noexcept;
  // Takes blocks for the next n tokens, which are then to be evaluated, and for n_draft drafted
  // ones behind them: at most draft_room(n). `ends`: the n are the last of a prompt or of an
  // answer. False when there are none; nothing has changed then but that some blocks may be there
  // already.
  [[nodiscard]] bool take(size_t n, size_t n_draft, bool ends);
  // How many drafted tokens a pass may have behind the next n: where there are states, up to the
  // end of a block, and so few that they are no burden when they are evaluated again.
  size_t draft_room(size_t n) const noexcept;
  // The last n tokens that were taken are not held after all: they were drafted, and may not be
  // the sequence's. Their KV is there.
  void disown(size_t n) noexcept { n_held_ -= n; }
  // The next n tokens are those that were disowned: they are held again. REQUIRES: nothing was
  // taken since.
  void own(size_t n) noexcept { n_held_ += n; }
  // No more of what was disowned is owned. A state cannot be cut back: where not all of a draft is
  // owned, what is of it must be evaluated again. Returns how many tokens that are; they are not
  // held.
  size_t settle_draft();
  // Before anything is evaluated: holds what is known of all but the last of `tokens`, and returns
  // how many that are.
  size_t share(kv::PrefixIndex& index, std::span<const int32_t> tokens);
  // What share() could hold beside is on disk: its bytes, and reads it.
  size_t bytes_to_load(kv::PrefixIndex& index, std::span<const int32_t> tokens) const {
    return index.bytes_to_load(tokens, tokens.size() - 1, marks_);
  }
  void load(kv::PrefixIndex& index, std::span<const int32_t> tokens) const {
    index.load(tokens, tokens.size() - 1, marks_);
  }
  void release_shared();  // gives that back
  // Makes what is held known: the first n_held() of `tokens`. REQUIRES: nothing was dropped, and
  // what was taken is evaluated.
  // `ends`: nothing follows.
  void insert(kv::PrefixIndex& index, std::span<const int32_t> tokens, bool ends) const;
  // Gives all blocks back, and returns how many bytes were granted. What was held is still told.
  uint64_t release();

 private:
  context::ContextPlan context_plan_;
  size_t rung_;
  size_t n_held_ = 0;
  size_t n_dropped_ = 0;
  uint64_t granted_bytes_ = 0;
  kv::BlockTable blocks_;
  kv::TextMarks marks_;
};

}  // namespace billow::engine
