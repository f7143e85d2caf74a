// The sizes that a sequence's memory grows through: pure arithmetic. A rung is a number of
// positions that memory is granted for; blocks are backed as they are written.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace billow::context {

class Ladder {
 public:
  // 512, 1024, 2048 and so on below `top`, then `top`, which is at least 1.
  explicit Ladder(size_t top);
  // The given sizes up to `cap`, in order, each once. Throws Error (kInvalidInput) when there is
  // none, or one is 0.
  Ladder(std::span<const size_t> sizes, size_t cap);

  std::span<const size_t> rungs() const noexcept { return rungs_; }
  size_t top() const noexcept { return rungs_.back(); }

  // The least rung that holds n positions; 0 where none does.
  size_t holding(size_t n) const noexcept;
  // Where a sequence with this prompt begins: it holds the prompt and one more token, if any rung
  // does. Throws Error (kTooLarge) with both numbers when the prompt is above the top.
  size_t first(size_t n_prompt) const;

 private:
  std::vector<size_t> rungs_;
};

}  // namespace billow::context
