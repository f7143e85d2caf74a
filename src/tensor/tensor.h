// The operands of the forward pass: weights as the file stores them, and matrices of floats in
// scratch memory. Both are views that own nothing.
#pragma once

#include <cstddef>

#include "quant/type.h"

namespace billow::tensor {

// A weight matrix of n_rows rows of n_cols values each, without padding between rows (GGUF's shape
// [n_cols, n_rows]).
struct Tensor {
  const std::byte* data = nullptr;
  quant::Type type = quant::Type::kF32;
  size_t n_cols = 0;
  size_t n_rows = 0;
  const std::byte* packed = nullptr;  // in the packed form of quant/packing.h, or null
  float scale = 1.0f;                 // multiplies products; not included in the data

  explicit operator bool() const noexcept { return data != nullptr; }
  size_t row_bytes() const noexcept { return quant::row_bytes(type, n_cols); }
  const std::byte* row(size_t i) const noexcept { return data + i * row_bytes(); }
  // REQUIRES: type is F32 and the data is aligned for it (norms and biases, checked at load).
  const float* floats() const noexcept { return reinterpret_cast<const float*>(data); }
};

// n_rows x n_cols floats, without padding between rows.
struct Matrix {
  float* data = nullptr;
  size_t n_rows = 0;
  size_t n_cols = 0;

  float* row(size_t i) const noexcept { return data + i * n_cols; }
};

}  // namespace billow::tensor
