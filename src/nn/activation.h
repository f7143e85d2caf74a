// Activations of feed-forward parts, with or without a gate.
#pragma once

#include <cmath>
#include <cstdint>

#include "nn/compute.h"
#include "tensor/tensor.h"

namespace billow::nn {

enum class Activation : uint8_t {
  kSilu,
  kGeluTanh,
  kGeluErf,
  kReluSquared,
  kXielu,        // only without a gate
  kClampedSilu,  // gpt-oss; only with a gate
};

// xIELU (Huang and Schlag, arXiv 2411.13010): for x > 0, alpha_p x^2 + beta x, else
// alpha_n (expm1(min(x, eps)) - x) + beta x.
struct Xielu {
  float alpha_n = 0.0f;
  float alpha_p = 0.0f;
  float beta = 0.0f;
  float eps = 0.0f;
};

inline float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

// x = activation(x)
void activate(const Compute& compute, Activation activation, const Xielu& xielu, tensor::Matrix x);
// gate = activation(gate) * up
void activate_gated(const Compute& compute, Activation activation, tensor::Matrix gate,
                    tensor::Matrix up);

}  // namespace billow::nn
