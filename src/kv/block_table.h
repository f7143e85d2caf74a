// Maps a sequence's positions to blocks: for each group, block ids by position / 64. A group of
// states has few blocks: block b holds the states after the last evaluated position of its 64
// positions. The table owns its blocks and frees them in its destructor. One thread at a time may
// use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/block_pool.h"
#include "kv/state_blocks.h"

namespace billow::kv {

class Cache;

class BlockTable {
 public:
  explicit BlockTable(Cache& cache);
  ~BlockTable();
  BlockTable(BlockTable&& other) noexcept;
  BlockTable& operator=(BlockTable&&) = delete;
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  // Allocates blocks for positions 0 .. n_positions - 1. Returns false if the pools have no free
  // blocks; the blocks that the table has stay.
  [[nodiscard]] bool grow(size_t n_positions);
  // Allocates the blocks that a pass over positions [begin, end) writes states to, and frees the
  // state blocks that become useless. The state after position begin - 1 stays. REQUIRES:
  // grow(end), and that the positions before begin are evaluated.
  [[nodiscard]] bool grow_states(size_t begin, size_t end, const TextMarks& marks);
  // Allocates a block for the state after the drafted positions [begin, end). The pass that
  // evaluates the draft writes that state there. The pass writes the state after begin - 1 to the
  // same block as without a draft. At most one draft at a time. Does nothing if the model has no
  // states. REQUIRES: grow(end), and that the draft is within one block of positions.
  [[nodiscard]] bool grow_draft(size_t begin, size_t end);
  // Ends the draft. The first n_held positions are right. Returns how many of these positions have
  // a stored state after them, and makes that state the table's: the state after the whole draft,
  // or the state before the draft.
  size_t settle_draft(size_t n_held);
  // Makes the blocks after the last ones resident, in the background: the sequence will need them
  // soon.
  void prepare_next();
  // Frees the blocks that no query at position `next` or later sees: those before a group's window.
  // Of the states, the one after next - 1 and the last one after a whole block stay. Returns
  // whether any block was freed.
  bool evict_before_window(size_t next);
  // Marks positions [begin, end) as unseen. Frees the blocks within them and, in groups with a
  // window, all blocks before `end`. A later gap replaces this one. REQUIRES: if there is a gap,
  // the same begin, and an end that is not before the gap's end.
  void open_gap(size_t begin, size_t end);
  // Adds the table as an owner of these blocks of a group: positions from 0 on, kNoBlock for blocks
  // before the window. REQUIRES: the group has no blocks.
  void append_shared(size_t group, std::vector<BlockId> blocks);
  void clear();

  bool has_states() const noexcept;
  // Block ids of a group; kNoBlock for freed ones.
  std::span<const BlockId> blocks(size_t group) const noexcept { return groups_[group].blocks; }
  // The block for the state after drafted positions, if the model has states.
  struct DraftState {
    size_t begin = 0;
    size_t end = 0;  // 0: no draft
    BlockId block = kNoBlock;
  };
  const DraftState& draft() const noexcept { return draft_; }
  size_t n_positions() const noexcept { return n_positions_; }  // that have blocks
  size_t gap_begin() const noexcept { return gap_begin_; }      // equal to gap_end(): no gap
  size_t gap_end() const noexcept { return gap_end_; }

 private:
  struct GroupBlocks {
    std::vector<BlockId> blocks;
    size_t n_evicted = 0;  // leading blocks that are before the window
  };
  bool free_blocks(size_t group, size_t begin, size_t end);
  Cache* cache_;
  std::vector<GroupBlocks> groups_;
  DraftState draft_;  // its block is reused for the next draft
  size_t n_positions_ = 0;
  size_t gap_begin_ = 0;
  size_t gap_end_ = 0;
};

}  // namespace billow::kv
