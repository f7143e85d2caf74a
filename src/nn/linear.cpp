#include "nn/linear.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace billow::nn {
namespace {

using kernels::GemmInput;
using kernels::padded;

// Rows of weights that a thread takes at a time: enough bytes to be worth the trip, few enough to
// share out evenly.
size_t rows_at_once(const tensor::Tensor& weight, size_t n_threads) {
  constexpr size_t kPieceBytes = size_t{48} << 10;
  const size_t by_bytes = std::max<size_t>(1, kPieceBytes / weight.row_bytes());
  const size_t by_share = std::max<size_t>(1, weight.n_rows / (4 * n_threads));
  return (std::min(by_bytes, by_share) + quant::kStripRows - 1) / quant::kStripRows *
         quant::kStripRows;
}

void add_float_form(const Compute& compute, const tensor::Matrix& x, GemmInput& input) {
  const size_t stride = padded(x.n_cols);
  if (stride == x.n_cols) {
    input.values = x.data;
    return;
  }
  auto* rows = compute.arena.array<float>(x.n_rows * stride);
  for (size_t i = 0; i < x.n_rows; ++i) {
    std::memcpy(rows + i * stride, x.row(i), x.n_cols * sizeof(float));
    std::fill(rows + i * stride + x.n_cols, rows + (i + 1) * stride, 0.0f);
  }
  input.values = rows;
}

void add_integer_form(const Compute& compute, const tensor::Matrix& x, GemmInput& input) {
  const size_t stride = padded(x.n_cols);
  auto* codes = compute.arena.array<int8_t>(x.n_rows * stride);
  auto* scales = compute.arena.array<float>(x.n_rows * stride / kernels::kActivationGroup);
  auto* sums = compute.arena.array<float>(x.n_rows * stride / 16);
  auto* code_sums = compute.arena.array<int32_t>(x.n_rows * stride / 16);
  constexpr size_t kRowsAtOnce = 8;
  compute.team.for_pieces(x.n_rows, kRowsAtOnce, [&](size_t begin, size_t end, int) {
    for (size_t i = begin; i < end; ++i) {
      compute.kernels.quantize_row(x.row(i), x.n_cols, codes + i * stride,
                                   scales + i * stride / kernels::kActivationGroup,
                                   sums + i * stride / 16, code_sums + i * stride / 16);
    }
  });
  input.codes = codes;
  input.scales = scales;
  input.sums = sums;
  input.code_sums = code_sums;
}

// How far ahead weights are asked for: far enough for memory to answer, not so far that they are
// evicted again.
constexpr size_t kPrefetchBytes = 4096;

void run_packed(const Compute& compute, const Product& product, const GemmInput& input,
                size_t begin, size_t end) {
  compute.kernels.gemm_packed[static_cast<size_t>(product.weight.type)](
      {.weight = product.weight.packed,
       .n_begin = begin,
       .n_end = end,
       .input = input,
       .out = product.out.data,
       .out_stride = product.out.n_cols,
       .prefetch_bytes = kPrefetchBytes});
}

void run_rows(const Compute& compute, const Product& product, const GemmInput& input, size_t begin,
              size_t end) {
  const auto gemm = compute.kernels.gemm[static_cast<size_t>(product.weight.type)];
  gemm({.weight = product.weight.data,
        .row_bytes = product.weight.row_bytes(),
        .n_begin = begin,
        .n_end = end,
        .input = input,
        .out = product.out.data,
        .out_stride = product.out.n_cols});
}

void run_piece(const Compute& compute, const Product& product, const GemmInput& input, size_t begin,
               size_t end) {
  if (product.weight.packed != nullptr) run_packed(compute, product, input, begin, end);
  if (product.weight.packed == nullptr) run_rows(compute, product, input, begin, end);
  if (product.bias == nullptr) return;
  for (size_t m = 0; m < input.m; ++m) {
    compute.kernels.add(product.out.row(m) + begin, product.bias + begin, end - begin);
  }
}

}  // namespace

void linear(const Compute& compute, tensor::Matrix x, std::initializer_list<Product> products) {
  const tensor::ArenaScope scope(compute.arena);
  GemmInput input{.m = x.n_rows, .k = x.n_cols};
  if (x.n_rows == 0) return;
  size_t n_pieces = 0;
  const auto n_threads = static_cast<size_t>(compute.team.size());
  for (const Product& product : products) {
    BILLOW_CHECK(product.weight.n_cols == x.n_cols && product.out.n_rows == x.n_rows &&
                 product.out.n_cols == product.weight.n_rows);
    const bool integer = quant::row(product.weight.type).integer;
    if (integer && input.codes == nullptr) add_integer_form(compute, x, input);
    if (!integer && input.values == nullptr) add_float_form(compute, x, input);
    const size_t piece = rows_at_once(product.weight, n_threads);
    n_pieces += (product.weight.n_rows + piece - 1) / piece;
  }
  compute.team.for_pieces(n_pieces, 1, [&](size_t begin, size_t end, int) {
    size_t first = 0;  // of the present product's pieces
    for (const Product& product : products) {
      const size_t piece = rows_at_once(product.weight, n_threads);
      const size_t n = (product.weight.n_rows + piece - 1) / piece;
      for (size_t i = std::max(begin, first); i < std::min(end, first + n); ++i) {
        const size_t row = (i - first) * piece;
        run_piece(compute, product, input, row, std::min(row + piece, product.weight.n_rows));
      }
      first += n;
    }
  });
}

}  // namespace billow::nn
