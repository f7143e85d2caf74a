// A correction of products with 8-bit activations where it counts.
#pragma once

#include "nn/compute.h"
#include "quant/packing.h"
#include "tensor/tensor.h"

namespace billow::nn {

// Products of one row that a thread looks through at once.
inline constexpr size_t kRunOfProducts = 64 * quant::kStripRows;

// Makes the greatest products of each row nearly as exact as without 8-bit codes: adds to `out`,
// which linear() computed from x, what rounding x took from those within `reach` of their row's
// greatest. Their neighbours in a strip of 16 weight rows gain it, too. Costs what those strips
// cost; nothing where the weights take x in another form.
void refine_max(const Compute& compute, tensor::Matrix x, const tensor::Tensor& weight, float reach,
                tensor::Matrix out);

// What 8-bit codes of n values, in the integer form of activations, leave over of them.
void rounding_rest(const float* x, size_t n, float* rest) noexcept;

}  // namespace billow::nn
