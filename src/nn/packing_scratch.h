// Packs weights that are not kept packed: a few rows at a time, just before they are used.
#pragma once

#include <vector>

#include "nn/compute.h"
#include "quant/packing.h"
#include "tensor/tensor.h"

namespace billow::nn {

// Rows of weights in a unit of work: two strips, which is the panel of most kernel tables.
inline constexpr size_t kUnitRows = 2 * quant::kStripRows;

inline size_t strip_bytes(const tensor::Tensor& weight) {
  return quant::row(weight.type).packing.strip_bytes(weight.n_cols);
}

// The scratch memory that one thread packs with.
struct PackingScratch {
  std::byte* strips = nullptr;
  float* scales = nullptr;
  float* offsets = nullptr;
};

// Returns one for each thread, in the arena; empty ones if largest_strip, in bytes, is 0.
std::vector<PackingScratch> make_packing_scratch(const Compute& compute, size_t largest_strip,
                                                 size_t k);

// Packs rows [begin, end), at most kUnitRows. Returns the strips, which are in `scratch`.
const std::byte* pack_rows(const kernels::TypeKernels& type, const tensor::Tensor& weight,
                           size_t begin, size_t end, const PackingScratch& scratch);

}  // namespace billow::nn
