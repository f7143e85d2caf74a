// Corrects products of 8-bit activations where precision matters.
#pragma once

#include "nn/compute.h"
#include "quant/packing.h"
#include "tensor/tensor.h"

namespace billow::nn {

// Products of one row that a thread searches in one step.
inline constexpr size_t kRunOfProducts = 64 * quant::kStripRows;

// Makes the largest products of each row nearly as exact as without 8-bit codes. linear() computed
// `out` from x. This function adds what rounding x lost to all products within `reach` of their
// row's max. Their neighbours in a strip of 16 weight rows become exact, too. The cost is that of
// these strips. Does nothing if the weights take x in another layout than codes.
void refine_max(const Compute& compute, tensor::Matrix x, const tensor::Tensor& weight, float reach,
                tensor::Matrix out);

// Computes the rounding errors of n values: each value minus scale * code, with the scale and the
// 8-bit code of the integer layout of activations.
void rounding_rest(const float* x, size_t n, float* rest) noexcept;

}  // namespace billow::nn
