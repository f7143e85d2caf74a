#include "nn/outliers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "base/check.h"
#include "nn/refine.h"

namespace billow::nn {
namespace {

bool takes_codes(const Compute& compute, const Product& product) {
  return compute.kernels.of(product.weight.type).input->kind == kernels::InputKind::kCodes;
}

// Returns whether the max is above 12 times the root of the mean square. On MiniLM, at most one row
// in twenty has an outlier, and correcting these rows at least halves the error of the vectors.
bool has_outlier(const float* x, size_t n) {
  constexpr float kRatio = 12.0f;
  constexpr size_t kLanes = 16;
  std::array<float, kLanes> max{};
  std::array<float, kLanes> squares{};
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float square = x[i + lane] * x[i + lane];
      max[lane] = max[lane] < square ? square : max[lane];
      squares[lane] += square;
    }
  }
  for (; i < n; ++i) {
    max[0] = std::max(max[0], x[i] * x[i]);
    squares[0] += x[i] * x[i];
  }
  float sum = 0.0f;
  for (const float square : squares) sum += square;
  return *std::ranges::max_element(max) * static_cast<float>(n) > kRatio * kRatio * sum;
}

std::vector<uint32_t> rows_with_outliers(const Compute& compute, tensor::Matrix x) {
  std::vector<uint8_t> flags(x.n_rows);
  constexpr size_t kRowsAtOnce = 16;
  compute.team.for_pieces(x.n_rows, kRowsAtOnce, [&](size_t begin, size_t end, int) {
    for (size_t i = begin; i < end; ++i) flags[i] = has_outlier(x.row(i), x.n_cols) ? 1 : 0;
  });
  std::vector<uint32_t> rows;
  for (size_t i = 0; i < flags.size(); ++i)
    if (flags[i] != 0) rows.push_back(static_cast<uint32_t>(i));
  return rows;
}

// Adapters of weights with codes take codes, too.
void add_rests(const Compute& of_all_rows, tensor::Matrix x, std::span<const uint32_t> rows,
               std::initializer_list<Product> products) {
  const ComputeOfRows of_rows(of_all_rows, rows);
  const Compute& compute = of_rows.compute();
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix rests = compute.arena.matrix(rows.size(), x.n_cols);
  if (compute.sizing == nullptr) {
    compute.team.for_pieces(rows.size(), 4, [&](size_t begin, size_t end, int) {
      for (size_t i = begin; i < end; ++i) rounding_rest(x.row(rows[i]), x.n_cols, rests.row(i));
    });
  }
  for (const Product& product : products) {
    if (!takes_codes(compute, product)) continue;
    const tensor::ArenaScope own(compute.arena);
    const tensor::Matrix sums = compute.arena.matrix(rows.size(), product.out.n_cols);
    linear(compute, rests, {{product.weight, nullptr, sums}});
    for (size_t i = 0; i < rows.size() && compute.sizing == nullptr; ++i)
      compute.kernels.add(product.out.row(rows[i]), sums.row(i), sums.n_cols);
  }
}

}  // namespace

void linear_with_outliers(const Compute& compute, tensor::Matrix x,
                          std::initializer_list<Product> products) {
  BILLOW_CHECK(compute.kinds.empty());
  linear(compute, x, products);
  if (std::ranges::none_of(products, [&](const Product& p) { return takes_codes(compute, p); }))
    return;
  // A sizing pass counts the rows of one correction step.
  const std::vector<uint32_t> rows = compute.sizing != nullptr
                                         ? std::vector<uint32_t>(std::min(x.n_rows, kOutlierRows))
                                         : rows_with_outliers(compute, x);
  for (size_t begin = 0; begin < rows.size(); begin += kOutlierRows) {
    const size_t n = std::min(kOutlierRows, rows.size() - begin);
    add_rests(compute, x, std::span(rows).subspan(begin, n), products);
  }
}

}  // namespace billow::nn
