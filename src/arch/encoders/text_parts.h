// Cuts an encoder's pass into parts. Each part goes through all layers before the next one. Pure;
// any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace billow::arch {

struct TextParts {
  std::vector<size_t> ends;  // [parts]: the index after each part's last text
  // If true, one thread computes each part, in parallel with other threads. No thread waits for
  // others between the steps of a layer, and a layer's results stay in the cache of that core. If
  // false, all threads share each part.
  bool alone = false;
};

// Max rows of a part, unless a single text has more: for parts of all threads, and of one thread.
constexpr size_t rows_together(size_t n_threads) {
  constexpr size_t kRows = 512;
  constexpr size_t kRowsOfThread = 128;
  return kRowsOfThread * n_threads > kRows ? kRowsOfThread * n_threads : kRows;
}
inline constexpr size_t kRowsAlone = 256;
inline constexpr size_t kLongestAlone = 512;  // all threads share texts that are longer
// Max rows of one thread so that others do not idle for too long: its share of n_rows plus a
// quarter, because sharing parts costs about a third.
constexpr size_t max_rows_of_thread(size_t n_rows, size_t n_threads) {
  return (n_rows + n_threads - 1) / n_threads * 5 / 4;
}
// Returns the max rows of a part of one thread in a pass of n_rows.
constexpr size_t max_rows_alone(size_t n_rows, size_t n_threads) {
  const size_t max = max_rows_of_thread(n_rows, n_threads);
  return max < kLongestAlone ? max : kLongestAlone;
}

// Plans the parts of texts that end at the rows `ends`. may_be_alone: the model's weights are small
// enough for each thread to read them on its own. Then each part belongs to one thread, unless some
// threads would idle for long.
TextParts plan_text_parts(std::span<const uint32_t> ends, size_t n_threads, bool may_be_alone);

}  // namespace billow::arch
