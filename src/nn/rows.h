// Operations on each row of a matrix. Functions without `out` change `x` in place.
#pragma once

#include "nn/compute.h"
#include "tensor/tensor.h"

namespace billow::nn {

// out row = layer_norm(x row + residual row) * weight + bias. `residual` may be an empty matrix;
// `out` may be x or `residual`.
struct LayerNorm {
  const float* weight = nullptr;  // [x.n_cols]
  const float* bias = nullptr;    // [x.n_cols]
  float eps = 0.0f;
};
void layer_norm(const Compute& compute, tensor::Matrix x, tensor::Matrix residual,
                const LayerNorm& norm, tensor::Matrix out);
void gelu(const Compute& compute, tensor::Matrix x);                        // exact, with erf
void add(const Compute& compute, tensor::Matrix x, tensor::Matrix y);       // x += y
void multiply(const Compute& compute, tensor::Matrix x, tensor::Matrix y);  // x *= y
void scale(const Compute& compute, tensor::Matrix x, float factor);
void silu_multiply(const Compute& compute, tensor::Matrix gate,
                   tensor::Matrix up);  // gate = silu(gate) * up
void gelu_multiply(const Compute& compute, tensor::Matrix gate,
                   tensor::Matrix up);  // gate = gelu_tanh(gate) * up
// x = x * sigmoid(gate)
void sigmoid_multiply(const Compute& compute, tensor::Matrix x, tensor::Matrix gate);
void softcap(const Compute& compute, tensor::Matrix x, float cap);  // cap * tanh(x / cap)

// out row i = the decoded row `ids[i]` of `table`. REQUIRES: ids in range.
void embed(const Compute& compute, const tensor::Tensor& table, const int32_t* ids,
           tensor::Matrix out);

}  // namespace billow::nn
