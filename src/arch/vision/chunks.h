// Cuts the rows of a pass into chunks, so that scratch memory for wide rows stays small. The bits
// of a row do not depend on its chunk.
#pragma once

#include <algorithm>
#include <cstddef>

#include "nn/compute.h"
#include "tensor/tensor.h"

namespace billow::arch {

inline constexpr size_t kChunkRows = 1024;

// Calls each(begin, end) for all chunks of n rows; in a sizing pass only for the largest chunk.
template <class Each>
void for_chunks(const nn::Compute& compute, size_t n, Each each) {
  for (size_t begin = 0; begin < n; begin += kChunkRows) {
    each(begin, std::min(n, begin + kChunkRows));
    if (compute.sizing != nullptr) return;
  }
}

// Returns rows [begin, end) of x.
inline tensor::Matrix rows_of(tensor::Matrix x, size_t begin, size_t end) {
  return {x.row(begin), end - begin, x.n_cols};
}

}  // namespace billow::arch
