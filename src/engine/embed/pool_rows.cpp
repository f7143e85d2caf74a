#include "engine/embed/pool_rows.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace billow::engine {
namespace {

void mean_rows(const float* rows, size_t n, size_t n_embd, float* out) noexcept {
  constexpr size_t kColumns = 64;  // columns at a time
  for (size_t at = 0; at < n_embd; at += kColumns) {
    const size_t n_columns = std::min(kColumns, n_embd - at);
    double sums[kColumns] = {};
    for (size_t row = 0; row < n; ++row)
      for (size_t i = 0; i < n_columns; ++i)
        sums[i] += static_cast<double>(rows[row * n_embd + at + i]);
    for (size_t i = 0; i < n_columns; ++i)
      out[at + i] = static_cast<float>(sums[i] / static_cast<double>(n));
  }
}

void max_of_rows(const float* rows, size_t n, size_t n_embd, float* out) noexcept {
  std::copy_n(rows, n_embd, out);
  for (size_t row = 1; row < n; ++row) {
    for (size_t i = 0; i < n_embd; ++i) {
      const float value = rows[row * n_embd + i];
      if (value > out[i] || std::isnan(value)) out[i] = value;
    }
  }
}

}  // namespace

size_t pooled_length(Pooling pooling, size_t n_tokens, size_t n_embd) noexcept {
  return pooling == Pooling::kNone ? n_tokens * n_embd : n_embd;
}

void pool_rows(Pooling pooling, const float* rows, size_t n, size_t n_embd, float* out) noexcept {
  BILLOW_CHECK(n > 0 && pooling != Pooling::kRank);
  switch (pooling) {
    case Pooling::kMean:
      return mean_rows(rows, n, n_embd, out);
    case Pooling::kMax:
      return max_of_rows(rows, n, n_embd, out);
    case Pooling::kLast:
      std::copy_n(rows + (n - 1) * n_embd, n_embd, out);
      return;
    default:  // the first row, or all rows
      std::copy_n(rows, pooled_length(pooling, n, n_embd), out);
  }
}

bool all_finite(std::span<const float> values) noexcept {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

}  // namespace billow::engine
