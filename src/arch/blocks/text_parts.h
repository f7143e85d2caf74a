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

// Rows of a part of one thread at most, but where a text alone has more; and of all threads.
inline constexpr size_t kRowsAlone = 256;
inline constexpr size_t kLongestAlone = 512;  // texts that are longer are shared
// The most rows that a part of one thread has in a pass of n_rows: no thread has more than its
// share and a quarter.
constexpr size_t most_rows_alone(size_t n_rows, size_t n_threads) {
  const size_t most = (n_rows + n_threads - 1) / n_threads * 5 / 4;
  return most < kLongestAlone ? most : kLongestAlone;
}
constexpr size_t rows_together(size_t n_threads) {
  constexpr size_t kRows = 512;
  constexpr size_t kRowsOfThread = 128;
  return kRowsOfThread * n_threads > kRows ? kRowsOfThread * n_threads : kRows;
}

// The parts of texts that end at these rows. may_be_alone: the model's weights are small enough to
// be read by each thread for itself. Then parts are made for one thread each, unless some threads
// would idle for long.
TextParts plan_text_parts(std::span<const uint32_t> ends, size_t n_threads, bool may_be_alone);

}  // namespace billow::arch
