#include "nn/quick_gelu.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "nn/for_rows.h"

namespace billow::nn {

void quick_gelu(const Compute& compute, tensor::Matrix x) {
  constexpr float kFactor = 1.702f;
  constexpr size_t kAtOnce = 256;
  for_rows(compute, x.n_rows, [&](size_t row) {
    std::array<float, kAtOnce> gate;
    for (size_t begin = 0; begin < x.n_cols; begin += kAtOnce) {
      float* const values = x.row(row) + begin;
      const size_t n = std::min(kAtOnce, x.n_cols - begin);
      for (size_t i = 0; i < n; ++i) gate[i] = kFactor * values[i];
      compute.kernels.sigmoid_multiply(values, gate.data(), n);
    }
  });
}

}  // namespace billow::nn
