// The context of a sequence: the granted memory, which tokens are evaluated, which were dropped,
// and the blocks that hold the KV. Only the Engine and its KvMemory change it.
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
  size_t n_held() const noexcept { return n_held_; }        // tokens with KV
  size_t n_dropped() const noexcept { return n_dropped_; }  // all directly after the anchor
  // Whether the text is longer than arch::ModelInfo::short_text (rotated by other factors).
  bool is_long() const noexcept { return marks_.is_long; }
  uint64_t granted_bytes() const noexcept { return granted_bytes_; }  // 0: not started
  const kv::BlockTable& blocks() const noexcept { return blocks_; }

  // Returns the index in the sequence's tokens for a position of the context.
  size_t index_of(size_t position) const noexcept {
    return position < context_plan_.n_anchor ? position : position + n_dropped_;
  }
  // Returns the slot of a position's KV. A shift does not move KV, so later tokens continue after a
  // gap.
  size_t slot_of(size_t position) const noexcept {
    return context_plan_.policy == context::OverflowPolicy::kShift ? index_of(position) : position;
  }

  // Decides what must happen before n_new tokens can be evaluated.
  context::Decision next(size_t n_new) const {
    return context::decide(context_plan_, rung_, n_held_, n_new);
  }
  // Returns the compaction that frees positions on this rung, if no larger rung is available and
  // the policy allows it.
  std::optional<context::Compaction> next_without_growth() const;
  // Moves to a rung. `granted_bytes`: all bytes that are then granted.
  void grow(size_t rung, uint64_t granted_bytes) noexcept {
    rung_ = rung;
    granted_bytes_ = granted_bytes;
  }
  // Sets is_long(). REQUIRES: n_held() is 0.
  void set_long(bool is_long = true) noexcept { marks_.is_long = is_long; }
  // Sets the adapter of the text. REQUIRES: n_held() is 0.
  void set_adapter(uint64_t number) noexcept { marks_.adapter = number; }
  // Sets the salt of the text. REQUIRES: n_held() is 0.
  void set_salt(uint64_t salt) noexcept { marks_.salt = salt; }
  // Drops the tokens that a compaction drops. After a refill, no token is evaluated.
  void compact(const context::Compaction& compaction);
  // Frees the blocks that no window sees from the next token on. Returns whether there were any.
  bool evict_out_of_window() { return blocks_.evict_before_window(slot_of(n_held_)); }
  // Returns how many of n tokens the next pass may evaluate: up to the position where a state is to
  // be kept.
  size_t rows_of_pass(size_t n) const noexcept;
  // Allocates blocks for the next n tokens, which must then be evaluated, and for n_draft drafted
  // tokens after them: at most draft_room(n). `ends`: these n tokens are the last of a prompt or of
  // an answer. Returns false if there are no free blocks; some blocks may already be allocated, but
  // nothing else has changed.
  [[nodiscard]] bool take(size_t n, size_t n_draft, bool ends);
  // Returns the max drafted tokens after the next n. Models with states have two limits: the end of
  // a block, and kMaxWritten, so that evaluating them again is cheap.
  size_t draft_room(size_t n) const noexcept;
  // Removes the last n taken tokens from the held ones. They were drafted, and may not become part
  // of the sequence. Their KV stays.
  void disown(size_t n) noexcept { n_held_ -= n; }
  // Adds the next n disowned tokens to the held ones again. REQUIRES: no take() since disown().
  void own(size_t n) noexcept { n_held_ += n; }
  // Ends the draft: no more disowned tokens are owned. A state cannot be truncated. If only a part
  // of a draft is owned, that part must be evaluated again. Returns how many tokens that are; they
  // are not held.
  size_t settle_draft();
  // Takes the cached blocks of all `tokens` but the last, as far as there are any. Returns the
  // number of tokens. Called before any token is evaluated.
  size_t match_prefix(kv::PrefixIndex& index, std::span<const int32_t> tokens);
  // bytes_to_load() returns the bytes of blocks on disk that match_prefix() could use. load() reads
  // them.
  size_t bytes_to_load(kv::PrefixIndex& index, std::span<const int32_t> tokens) const {
    return index.bytes_to_load(tokens, tokens.size() - 1, marks_);
  }
  void load(kv::PrefixIndex& index, std::span<const int32_t> tokens) const {
    index.load(tokens, tokens.size() - 1, marks_);
  }
  void release_shared();  // undoes match_prefix()
  // Inserts the held tokens, which are the first n_held() of `tokens`, into the index. REQUIRES: no
  // token was dropped, and all taken tokens are evaluated. `ends`: no token follows.
  void insert(kv::PrefixIndex& index, std::span<const int32_t> tokens, bool ends) const;
  // Frees all blocks and returns how many bytes were granted. n_held() keeps its value.
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
