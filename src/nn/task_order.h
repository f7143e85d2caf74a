// The order in which a team takes the items of several tasks. With one part, one task follows the
// other. With a part for each member of the team, a member's part has the member's share of each
// task. Then a member has the same items of a task whatever other tasks run with it, so the
// weights of these items can be on the member's NUMA node (nn/packed_weights.h). Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "cpu/shares.h"

namespace billow::nn {

class TaskOrder {
 public:
  // `ends`: for each task, the number of items of all tasks up to its own. `ends` must outlive the
  // object. REQUIRES: n_parts >= 1.
  TaskOrder(std::span<const size_t> ends, size_t n_parts) noexcept
      : ends_(ends), n_parts_(n_parts) {}

  size_t n_items() const noexcept { return ends_.empty() ? 0 : ends_.back(); }

  // Returns the first position of a part; n_items() if `part` is the number of parts.
  size_t begin_of(size_t part) const noexcept {
    size_t sum = 0;
    for (size_t task = 0; task < ends_.size(); ++task) sum += first_item(task, part);
    return sum;
  }

  // Calls use(task, begin, end) for the runs of items of one task at positions [begin, end).
  template <class Use>
  void each_run(size_t begin, size_t end, Use use) const {
    size_t part = part_at(begin);
    size_t position = begin_of(part);
    for (; position < end; ++part) {
      for (size_t task = 0; task < ends_.size() && position < end; ++task) {
        const size_t first = first_item(task, part);
        const size_t n = first_item(task, part + 1) - first;
        const size_t from = std::max(begin, position);
        const size_t to = std::min(end, position + n);
        if (from < to) use(task, first + from - position, first + to - position);
        position += n;
      }
    }
  }

 private:
  // Returns the first item of a part among the items of one task.
  size_t first_item(size_t task, size_t part) const noexcept {
    const size_t n = ends_[task] - (task == 0 ? 0 : ends_[task - 1]);
    return cpu::share_begin(n, part, n_parts_);
  }
  // Returns the last part that begins at or before a position.
  size_t part_at(size_t position) const noexcept {
    size_t low = 0;
    size_t high = n_parts_;
    while (high - low > 1) {
      const size_t middle = low + (high - low) / 2;
      (begin_of(middle) <= position ? low : high) = middle;
    }
    return low;
  }

  std::span<const size_t> ends_;
  size_t n_parts_;
};

}  // namespace billow::nn
