#include "nn/activation.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "nn/for_rows.h"

namespace billow::nn {
namespace {

// gpt-oss clamps g and |u| to this.
constexpr float kSiluLimit = 7.0f;

float of_xielu(const Xielu& p, float x) {
  if (x > 0.0f) return p.alpha_p * x * x + p.beta * x;
  return p.alpha_n * (std::expm1(std::min(x, p.eps)) - x) + p.beta * x;
}

void activate_row(const kernels::KernelTable& kernels, Activation activation, const Xielu& xielu,
                  float* x, size_t n) {
  switch (activation) {
    case Activation::kSilu:
      for (size_t i = 0; i < n; ++i) x[i] = x[i] / (1.0f + std::exp(-x[i]));
      return;
    case Activation::kGeluTanh:
      return kernels.gelu_tanh(x, n);
    case Activation::kGeluErf:
      return kernels.gelu(x, n);
    case Activation::kReluSquared:
      for (size_t i = 0; i < n; ++i) x[i] = std::max(x[i], 0.0f) * std::max(x[i], 0.0f);
      return;
    case Activation::kXielu:
      for (size_t i = 0; i < n; ++i) x[i] = of_xielu(xielu, x[i]);
      return;
    case Activation::kClampedSilu:
      break;
  }
  BILLOW_CHECK(false);
}

}  // namespace

void activate(const Compute& compute, Activation activation, const Xielu& xielu, tensor::Matrix x) {
  for_rows(compute, x.n_rows,
           [&](size_t i) { activate_row(compute.kernels, activation, xielu, x.row(i), x.n_cols); });
}

void activate_gated(const Compute& compute, Activation activation, tensor::Matrix gate,
                    tensor::Matrix up) {
  for_rows(compute, gate.n_rows, [&](size_t i) {
    float* const g = gate.row(i);
    const float* const u = up.row(i);
    switch (activation) {
      case Activation::kSilu:
        return compute.kernels.silu_multiply(g, u, gate.n_cols);
      case Activation::kGeluTanh:
        return compute.kernels.gelu_multiply(g, u, gate.n_cols);
      case Activation::kClampedSilu:
        return compute.kernels.clamped_silu_multiply(g, u, gate.n_cols, kSiluLimit);
      default:
        activate_row(compute.kernels, activation, {}, g, gate.n_cols);
        for (size_t k = 0; k < gate.n_cols; ++k) g[k] *= u[k];
    }
  });
}

}  // namespace billow::nn
