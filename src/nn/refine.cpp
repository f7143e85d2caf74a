#include "nn/refine.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "nn/packing_scratch.h"

namespace billow::nn {
namespace {

float max(std::span<const float> values) {
  constexpr size_t kLanes = 16;
  std::array<float, kLanes> lanes;
  lanes.fill(-std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = lanes[lane] < values[i + lane] ? values[i + lane] : lanes[lane];
  for (; i < values.size(); ++i) lanes[0] = std::max(lanes[0], values[i]);
  return *std::ranges::max_element(lanes);
}

// Adds the products of `input` to the strips that contain a product of at least `min`. `products`
// are those of one row with weight rows row, row + 1, and so on. `input` is one row in the layout
// that the weights need.
void add_near_max(const kernels::TypeKernels& type, const tensor::Tensor& weight, size_t row,
                  std::span<float> products, float min, const std::byte* input,
                  const PackingScratch& scratch) {
  for (; !products.empty(); row += quant::kStripRows) {
    const std::span<float> strip = products.first(std::min(quant::kStripRows, products.size()));
    products = products.subspan(strip.size());
    if (max(strip) < min) continue;
    std::array<float, quant::kStripRows> sums;
    type.gemm({.weight = weight.packed != nullptr
                             ? weight.packed + row / quant::kStripRows * strip_bytes(weight)
                             : pack_rows(type, weight, row, row + strip.size(), scratch),
               .n_begin = 0,
               .n_end = strip.size(),
               .m = 1,
               .k = weight.n_cols,
               .input = input,
               .out = sums.data(),
               .out_stride = sums.size()});
    for (size_t i = 0; i < strip.size(); ++i) strip[i] += sums[i] * weight.scale;
  }
}

}  // namespace

// Uses the same codes as kernels/body/quantize.inl.h.
void rounding_rest(const float* x, size_t n, float* rest) noexcept {
  for (size_t begin = 0; begin < n; begin += kernels::kActivationGroup) {
    const size_t end = std::min(begin + kernels::kActivationGroup, n);
    float largest = 0.0f;
    for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(x[i]));
    const bool usable = largest >= 1e-30f;
    const float inverse = usable ? 127.0f / largest : 0.0f;
    const float scale = usable ? largest * (1.0f / 127.0f) : 0.0f;
    // Adding this number rounds a small code to the nearest integer, ties to even.
    constexpr float kRounder = 12582912.0f;
    for (size_t i = begin; i < end; ++i)
      rest[i] = x[i] - ((x[i] * inverse + kRounder) - kRounder) * scale;
  }
}

void refine_max(const Compute& compute, tensor::Matrix x, const tensor::Tensor& weight, float reach,
                tensor::Matrix out) {
  const kernels::TypeKernels& type = compute.kernels.of(weight.type);
  if (type.input->kind != kernels::InputKind::kCodes) return;
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix rests = compute.arena.matrix(x.n_rows, x.n_cols);
  const size_t input_bytes = type.input->bytes(1, x.n_cols);
  std::byte* inputs = compute.arena.bytes(x.n_rows * input_bytes);
  if (compute.sizing != nullptr) {
    compute.arena.matrix(x.n_rows, (out.n_cols + kRunOfProducts - 1) / kRunOfProducts);
    make_packing_scratch(compute, weight.packed == nullptr ? strip_bytes(weight) : 0, x.n_cols);
    return;
  }
  compute.team.for_pieces(x.n_rows, 1, [&](size_t begin, size_t end, int) {
    for (size_t m = begin; m < end; ++m) {
      rounding_rest(x.row(m), x.n_cols, rests.row(m));
      const float* const rest = rests.row(m);
      type.input->quantize(&rest, 1, x.n_cols, inputs + m * input_bytes);
    }
  });
  const size_t n_runs = (out.n_cols + kRunOfProducts - 1) / kRunOfProducts;
  const auto run = [&](size_t m, size_t i) {
    const size_t begin = i * kRunOfProducts;
    return std::span<float>(out.row(m) + begin, std::min(kRunOfProducts, out.n_cols - begin));
  };
  const tensor::Matrix run_max = compute.arena.matrix(x.n_rows, n_runs);
  compute.team.for_shares(x.n_rows * n_runs, [&](size_t begin, size_t end, int) {
    for (size_t i = begin; i < end; ++i) run_max.data[i] = max(run(i / n_runs, i % n_runs));
  });
  std::vector<float> min(x.n_rows);
  for (size_t m = 0; m < x.n_rows; ++m) min[m] = max({run_max.row(m), n_runs}) - reach;
  const std::vector<PackingScratch> scratch =
      make_packing_scratch(compute, weight.packed == nullptr ? strip_bytes(weight) : 0, x.n_cols);
  compute.team.for_shares(x.n_rows * n_runs, [&](size_t begin, size_t end, int member) {
    for (size_t i = begin; i < end; ++i) {
      const size_t m = i / n_runs;
      if (run_max.data[i] < min[m]) continue;
      add_near_max(type, weight, i % n_runs * kRunOfProducts, run(m, i % n_runs), min[m],
                   inputs + m * input_bytes, scratch[static_cast<size_t>(member)]);
    }
  });
}

}  // namespace billow::nn
