// Operations on each row of a matrix by itself. `x` is changed in place where there is no `out`.
#pragma once

#include "nn/compute.h"
#include "tensor/tensor.h"

namespace billow::nn {

// out row = rms_norm(x row) * weight. `weight` has x.n_cols floats.
void rms_norm(const Compute& compute, tensor::Matrix x, const float* weight, float eps,
              tensor::Matrix out);
// The same on each piece of head_len values, `weight` with head_len floats, in place.
void rms_norm_heads(const Compute& compute, tensor::Matrix x, size_t head_len, const float* weight,
                    float eps);
// out row = layer_norm(x row + residual row) * weight + bias; `residual` may be an empty matrix,
// `out` either of them.
struct LayerNorm {
  const float* weight = nullptr;  // [x.n_cols]
  const float* bias = nullptr;    // [x.n_cols]
  float eps = 0.0f;
};
void layer_norm(const Compute& compute, tensor::Matrix x, tensor::Matrix residual,
                const LayerNorm& norm, tensor::Matrix out);
void gelu(const Compute& compute, tensor::Matrix x);                   // the exact one, by erf
void add(const Compute& compute, tensor::Matrix x, tensor::Matrix y);  // x += y
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
