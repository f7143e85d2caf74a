// The memory of one llama-server: a pool of cells that all answers share. A cell is one position of
// KV. The pool only calculates. It has no threads and no processes. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "context/memory_need.h"
#include "runner/memory_budget.h"

namespace billow::llama {

// Result of a request for cells: what must happen before the answer can have them.
enum class Room : uint8_t {
  kThere,    // nothing: the cells are reserved
  kBusy,     // llama-server must restart with more cells when it writes no answer
  kFull,     // other answers must end
  kLacking,  // the budget must grow
  kNone,     // the cells are not possible: the budget cannot grow enough
};

class Pool {
 public:
  // `max_cells` is the number of cells that all answers together can use.
  Pool(context::MemoryNeed need, size_t max_cells, const runner::MemoryBudget& budget)
      : need_(std::move(need)), max_cells_(max_cells), budget_(budget) {}

  // Returns the number of cells that the budget allows: at least one block.
  size_t cells_of_budget() const noexcept { return cells_within(budget_.bytes); }
  // Records that llama-server has started with n_cells and `fixed_bytes` of other memory. 0: uses
  // the estimate.
  void began(size_t n_cells, uint64_t fixed_bytes) noexcept;
  void ended() noexcept { n_cells_ = 0; }
  void set_budget(const runner::MemoryBudget& budget) noexcept { budget_ = budget; }
  const runner::MemoryBudget& budget() const noexcept { return budget_; }

  // Reserves cells for an answer that has n_had cells and needs n_wanted in total. If the result is
  // kThere, the answer has the cells. `may_restart`: no answer is being written.
  Room reserve(size_t n_had, size_t n_wanted, bool may_restart) noexcept;
  void give_back(size_t n) noexcept { n_reserved_ -= n; }
  // Returns whether llama-server must restart with cells_of_budget(), so that n_more cells fit.
  bool needs_restart(size_t n_more) const noexcept { return n_reserved_ + n_more > n_cells_; }
  // Returns whether llama-server holds more than the budget. It must then restart as soon as it
  // writes no answer.
  bool is_above_budget() const noexcept { return n_cells_ > 0 && held_bytes() > budget_.bytes; }

  bool has_answers() const noexcept { return n_reserved_ > 0; }
  size_t n_cells() const noexcept { return n_cells_; }
  uint64_t fixed_bytes() const noexcept { return fixed_bytes_ == 0 ? estimated() : fixed_bytes_; }
  uint64_t held_bytes() const noexcept { return fixed_bytes() + bytes_of(n_cells_); }
  uint64_t idle_bytes() const noexcept;  // the part of held_bytes() without a reservation
  // Returns how many bytes the budget lacks for n_more cells.
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
