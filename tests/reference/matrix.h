// Weights of the reference. A product decodes one row to float at a time and multiplies it with all
// tokens, so a quantised model needs no memory except its file. Pure functions over an open file;
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "gguf/file.h"

namespace billow::reference {

// Returns the dot product of n floats: sixteen sums in float, added in double.
double dot(const float* a, const float* b, size_t n) noexcept;

// Calls work(begin, end) for parts of [0, n). Uses two threads if `cost`, the total number of
// multiplications, is high enough. `work` must not throw.
void in_parallel(size_t n, uint64_t cost, const std::function<void(size_t, size_t)>& work);

// Returns all n elements of a one-dimensional tensor. Throws Error if the tensor is missing or has
// another size.
std::vector<float> read_vector(const gguf::File& file, const std::string& name, uint64_t n);

// A matrix of n_out rows with n_in elements. It refers to the file, which must outlive it.
class Matrix {
 public:
  // Throws Error if the tensor is missing, has another shape or a type that cannot be decoded.
  Matrix(const gguf::File& file, const std::string& name, uint64_t n_in, uint64_t n_out);

  uint64_t n_out() const noexcept { return n_out_; }
  // Writes row `row` to `out` as n_in floats.
  void read_row(uint64_t row, float* out) const noexcept;
  // Multiplies `in`, [n_tokens][n_in]. Returns [n_tokens][n_out].
  std::vector<float> multiply(std::span<const float> in) const;

 private:
  uint64_t n_in_;
  uint64_t n_out_;
  size_t row_bytes_ = 0;
  const std::byte* data_ = nullptr;
  void (*decode_)(const std::byte*, size_t, float*) noexcept = nullptr;
};

}  // namespace billow::reference
