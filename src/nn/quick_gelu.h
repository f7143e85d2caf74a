// The quick form of GELU, an approximation with one sigmoid (Hendrycks and Gimpel, arXiv
// 1606.08415).
#pragma once

#include "nn/compute.h"
#include "tensor/tensor.h"

namespace billow::nn {

// x = x * sigmoid(1.702 x)
void quick_gelu(const Compute& compute, tensor::Matrix x);

}  // namespace billow::nn
