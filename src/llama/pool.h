// The memory of one llama-server: a pool of cells that all answers share. A cell is one position of
// KV. The pool only calculates: it has no threads and no processes. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "context/memory_need.h"
#include "runner/memory_budget.h"

namespace billow::llama {

// What has to happen before an answer can have its cells.
enum class Room : uint8_t {
  kThere,    // nothing: the cells are reserved
  kBusy,     // llama-server has to start again with more cells, when no answer is being written
  kFull,     // other answers have to end
  kLacking,  // the budget has to grow
  kNone,     // nothing helps: the budget cannot grow enough
};

class Pool {
 public:
  // `max_cells`: the cells that all answers together can use.
  Pool(context::MemoryNeed need, size_t max_cells, const runner::MemoryBudget& budget)
      : need_(std::move(need)), max_cells_(max_cells), budget_(budget) {}

  // The cells that the budget allows: at least one block.
  size_t cells_of_budget() const noexcept { return cells_within(budget_.bytes); }
  // llama-server has started with n_cells, and holds `fixed_bytes` beside them. 0: the estimate.
  void began(size_t n_cells, uint64_t fixed_bytes) noexcept;
  void ended() noexcept { n_cells_ = 0; }
  void set_budget(const runner::MemoryBudget& budget) noexcept { budget_ = budget; }
  const runner::MemoryBudget& budget() const noexcept { return budget_; }

  // Reserves cells for an answer that has n_had and wants n_wanted in all. kThere: the answer has
  // them now. `may_restart`: no answer is being written.
  Room reserve(size_t n_had, size_t n_wanted, bool may_restart) noexcept;
  void give_back(size_t n) noexcept { n_reserved_ -= n; }
  // Whether llama-server has to start again, with cells_of_budget(), so that n_more fit.
  bool needs_restart(size_t n_more) const noexcept { return n_reserved_ + n_more > n_cells_; }
  // llama-server holds more than the budget. It has to start again as soon as no answer is written.
  bool is_above_budget() const noexcept { return n_cells_ > 0 && held_bytes() > budget_.bytes; }

  bool has_answers() const noexcept { return n_reserved_ > 0; }
  size_t n_cells() const noexcept { return n_cells_; }
  uint64_t fixed_bytes() const noexcept { return fixed_bytes_ == 0 ? estimated() : fixed_bytes_; }
  uint64_t held_bytes() const noexcept { return fixed_bytes() + bytes_of(n_cells_); }
  uint64_t idle_bytes() const noexcept;  // the part of held_bytes() whose cells no answer has
  // By how much the budget is too small for n_more cells.
  uint64_t lacking_bytes(size_t n_more) const noexcept;

 private:
  uint64_t estimated() const noexcept;
  uint64_t bytes_of(size_t n_cells) const noexcept;
  size_t cells_within(uint64_t bytes) const noexcept;

  context::MemoryNeed need_;
  size_t max_cells_;
  runner::MemoryBudget budget_;
  uint64_t fixed_bytes_ = 0;
  size_t n_cells_ = 0;
  size_t n_reserved_ = 0;
};

}  // namespace billow::llama
