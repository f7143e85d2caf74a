// Products of weight matrices with rows of activations.
#pragma once

#include <initializer_list>

#include "nn/compute.h"
#include "tensor/tensor.h"

namespace billow::nn {

// One product: out[m][n] = dot(weight row n, x row m) + bias[n].
struct Product {
  tensor::Tensor weight;        // n_out rows of x.n_cols
  const float* bias = nullptr;  // [n_out], or null
  tensor::Matrix out;           // [x.n_rows][n_out]
};

// Computes all products of the same input. The input is brought into the form that the weights want
// once, whatever the number of products. REQUIRES: shapes fit; `out` does not overlap `x`.
void linear(const Compute& compute, tensor::Matrix x, std::initializer_list<Product> products);

}  // namespace billow::nn
