#include "arch/encoders/text_parts.h"

#include <algorithm>

namespace billow::arch {
namespace {

// Cuts texts into groups of adjacent texts of at most n_rows together, at least one text each.
std::vector<size_t> cut(std::span<const uint32_t> ends, size_t n_rows) {
  std::vector<size_t> parts;
  size_t begin = 0;  // rows
  for (size_t text = 0; text < ends.size();) {
    size_t last = text + 1;
    while (last < ends.size() && ends[last] - begin <= n_rows) ++last;
    parts.push_back(last);
    begin = ends[last - 1];
    text = last;
  }
  return parts;
}

// Returns the max rows of a thread if each thread takes the next part as soon as it is free.
size_t max_rows(std::span<const uint32_t> ends, std::span<const size_t> parts, size_t n_threads) {
  std::vector<size_t> rows(n_threads);
  size_t begin = 0;
  for (const size_t last : parts) {
    *std::ranges::min_element(rows) += ends[last - 1] - begin;
    begin = ends[last - 1];
  }
  return std::ranges::max(rows);
}

}  // namespace

TextParts plan_text_parts(std::span<const uint32_t> ends, size_t n_threads, bool may_be_alone) {
  const size_t n_rows = ends.empty() ? 0 : ends.back();
  if (may_be_alone && n_threads > 1) {
    const size_t share = (n_rows + n_threads - 1) / n_threads;
    const size_t n_shares = std::max<size_t>(1, (share + kRowsAlone - 1) / kRowsAlone);
    TextParts parts = {cut(ends, (share + n_shares - 1) / n_shares), true};
    uint32_t longest = 0;
    for (size_t i = 0; i < ends.size(); ++i)
      longest = std::max(longest, ends[i] - (i == 0 ? 0 : ends[i - 1]));
    const bool is_even =
        max_rows(ends, parts.ends, n_threads) <= max_rows_of_thread(n_rows, n_threads);
    if (longest <= kLongestAlone && is_even) return parts;
  }
  return {cut(ends, rows_together(n_threads)), false};
}

}  // namespace billow::arch
