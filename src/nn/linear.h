// Products of weight matrices with rows of activations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "nn/compute.h"
#include "tensor/tensor.h"

namespace billow::nn {

// Returns whether products of this weight round tokens that are read to BF16.
inline bool reads_in_bf16(const kernels::KernelTable& kernels, const tensor::Tensor& weight) {
  return kernels.of(weight.type, kernels::RowKind::kRead).input->kind == kernels::InputKind::kBF16;
}

// One product: out[m][n] = dot(weight row n, x row m) + bias[n].
struct Product {
  tensor::Tensor weight;        // n_out rows of x.n_cols
  const float* bias = nullptr;  // [n_out], or null
  tensor::Matrix out;           // [x.n_rows][n_out]
};

// Computes all products of the same input. Quantizes the input once for each activation layout that
// the weights need. Adds the products of the rows' adapters. REQUIRES: shapes fit; `out` does not
// overlap `x`; if rows have adapters, x has the rows of the pass, or those of ComputeOfRows.
void linear(const Compute& compute, tensor::Matrix x, std::initializer_list<Product> products);

// One product of some inputs: inputs [begin, end) give rows [begin, end) of `out`.
struct RowsProduct {
  size_t begin = 0;
  size_t end = 0;
  tensor::Tensor weight;
  const float* bias = nullptr;  // [n_out], or null
  tensor::Matrix out;           // [inputs][n_out]
};

// Computes products whose weights differ by inputs: experts, or heads with separate matrices. Input
// i is row rows[i] of x, or row i if `rows` is empty. Runs that begin at the same input are equal;
// products of the same run are adjacent. A sizing pass may give all inputs to every product.
// REQUIRES: as linear(), and rows below x.n_rows.
void linear_of_rows(const Compute& compute, tensor::Matrix x, std::span<const uint32_t> rows,
                    std::span<const RowsProduct> products);

}  // namespace billow::nn
