// Which blocks hold a sequence's positions: for each group, block ids by position / 64. A group of
// states has few of them: block b holds the states behind the last evaluated position of its 64.
// Owns the blocks and gives them back at its end. Used by one thread at a time.
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

  // Makes room for positions 0 .. n_positions - 1. False when the pools have no more blocks; what
  // there was stays.
  [[nodiscard]] bool grow(size_t n_positions);
  // Takes the blocks that a pass over positions [begin, end) writes states to, and gives back the
  // ones that it makes useless. The state behind begin - 1 stays. REQUIRES: grow(end), and that the
  // positions before begin are evaluated.
  [[nodiscard]] bool grow_states(size_t begin, size_t end, const TextMarks& marks);
  // Takes a block for the state behind drafted positions [begin, end): the pass that was grown to
  // `begin` writes it there, and the state behind begin - 1 where it would without a draft. At most
  // one draft at a time. Does nothing where there are no states.
  // REQUIRES: grow(end), and that the draft lies within one block of positions.
  [[nodiscard]] bool grow_draft(size_t begin, size_t end);
  // The first n_held positions are right. Returns how many of them have a state behind them that is
  // there, and makes it the table's: of a draft all, or none.
  size_t settle_draft(size_t n_held);
  // Has the blocks behind the last one made resident, in the background: they will be wanted soon.
  void prepare_next();
  // Gives back blocks that no query at position `next` or later sees any more: those before a
  // group's window. Of states, the one behind next - 1 stays, and the last behind a whole block.
  // Returns whether there were any.
  bool evict_before_window(size_t next);
  // Positions begin up to end are seen no more: gives back the blocks that lie within them and, of
  // groups with a window, all before. A later gap takes the place of this one.
  // REQUIRES: the same begin as the gap that there is, if any, and an end not before its.
  void open_gap(size_t begin, size_t end);
  // Owns these blocks of a group, too: positions from 0 on, kNoBlock where the window has left
  // them. REQUIRES: the group has none yet.
  void append_shared(size_t group, std::vector<BlockId> blocks);
  void clear();

  bool has_states() const noexcept;
  // Block ids of a group; kNoBlock for forgotten ones.
  std::span<const BlockId> blocks(size_t group) const noexcept { return groups_[group].blocks; }
  // The state behind drafted positions, of a table that has states.
  struct DraftState {
    size_t begin = 0;
    size_t end = 0;  // 0: nothing is drafted
    BlockId block = kNoBlock;
  };
  const DraftState& draft() const noexcept { return draft_; }
  size_t n_positions() const noexcept { return n_positions_; }  // that there is room for
  size_t gap_begin() const noexcept { return gap_begin_; }      // equal to its end: there is none
  size_t gap_end() const noexcept { return gap_end_; }

 private:
  struct GroupBlocks {
    std::vector<BlockId> blocks;
    size_t n_forgotten = 0;  // at the beginning, because of the window
  };
  bool forget(size_t group, size_t begin, size_t end);
  Cache* cache_;
  std::vector<GroupBlocks> groups_;
  DraftState draft_;  // its block stays for the next draft
  size_t n_positions_ = 0;
  size_t gap_begin_ = 0;
  size_t gap_end_ = 0;
};

}  // namespace billow::kv
