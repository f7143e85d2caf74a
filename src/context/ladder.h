// The sizes that a sequence's memory grows through: pure arithmetic. A rung is the number of
// positions that memory is granted for. Blocks get physical memory when they are written.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace billow::context {

class Ladder {
 public:
  // Creates the rungs 512, 1024, 2048 and so on below `top`, then `top`, which is at least 1.
  explicit Ladder(size_t top);
  // Creates the rungs from the given sizes up to `cap`, in ascending order, each once. Throws Error
  // (kInvalidInput) if no size is left, or if a size is 0.
  Ladder(std::span<const size_t> sizes, size_t cap);

  std::span<const size_t> rungs() const noexcept { return rungs_; }
  size_t top() const noexcept { return rungs_.back(); }

  // Returns the smallest rung that holds n positions, or 0 if no rung does.
  size_t holding(size_t n) const noexcept;
  // Returns the first rung of a sequence with this prompt. It holds the prompt and one more token,
  // if any rung does. If the prompt is longer than the top, throws Error (kTooLarge) with both
  // numbers.
  size_t first(size_t n_prompt) const;

 private:
  std::vector<size_t> rungs_;
};

}  // namespace billow::context
