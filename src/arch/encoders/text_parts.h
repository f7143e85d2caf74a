// How an encoder's pass is cut into parts, each brought through all layers before the next. Pure;
// any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace billow::arch {

struct TextParts {
  std::vector<size_t> ends;  // [parts]: the text behind each part's last
  // Each part is one thread's own, side by side with those of others: no thread waits for another
  // between two steps of a layer, and what a layer makes of a part stays in that core's cache.
  // Otherwise all threads share each part.
  bool alone = false;
};

// Rows of a part at most, but where a text alone has more: of all threads, and of one.
constexpr size_t rows_together(size_t n_threads) {
  constexpr size_t kRows = 512;
  constexpr size_t kRowsOfThread = 128;
  return kRowsOfThread * n_threads > kRows ? kRowsOfThread * n_threads : kRows;
}
inline constexpr size_t kRowsAlone = 256;
inline constexpr size_t kLongestAlone = 512;  // texts that are longer are shared
// Rows of a thread beside which others do not idle for too long: its share of n_rows and a quarter,
// as sharing parts costs about a third.
constexpr size_t max_rows_of_thread(size_t n_rows, size_t n_threads) {
  return (n_rows + n_threads - 1) / n_threads * 5 / 4;
}
// The most rows that a part of one thread has in a pass of n_rows.
constexpr size_t max_rows_alone(size_t n_rows, size_t n_threads) {
  const size_t max = max_rows_of_thread(n_rows, n_threads);
  return max < kLongestAlone ? max : kLongestAlone;
}

// The parts of texts that end at these rows. may_be_alone: the model's weights are small enough to
// be read by each thread for itself. Then parts are made for one thread each, unless some threads
// would idle for long.
TextParts plan_text_parts(std::span<const uint32_t> ends, size_t n_threads, bool may_be_alone);

}  // namespace billow::arch
