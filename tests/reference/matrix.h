// Weights of the reference: rows are decoded to float one at a time and met with every token at
// once, so that a quantised model needs no memory beside its file. Pure functions over an open
// file; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "gguf/file.h"

namespace billow::reference {

// The dot product of n floats: sixteen running sums in float, added up in double.
double dot(const float* a, const float* b, size_t n) noexcept;

// Calls work(begin, end) for parts of [0, n), on two threads when `cost` (multiplications in all)
// is worth it. `work` must not throw.
void in_parallel(size_t n, uint64_t cost, const std::function<void(size_t, size_t)>& work);

// All n elements of a tensor of one dimension. Throws Error when it is missing or has another size.
std::vector<float> read_vector(const gguf::File& file, const std::string& name, uint64_t n);

// A matrix of n_out rows of n_in, checked against the file. Views the file, which must outlive it.
class Matrix {
 public:
  // Throws Error when the tensor is missing, has other sizes or a type that cannot be decoded.
  Matrix(const gguf::File& file, const std::string& name, uint64_t n_in, uint64_t n_out);

  uint64_t n_out() const noexcept { return n_out_; }
  // Row `row` as n_in floats.
  void read_row(uint64_t row, float* out) const noexcept;
  // `in` is [n_tokens][n_in]; returns [n_tokens][n_out].
  std::vector<float> multiply(std::span<const float> in) const;

 private:
  uint64_t n_in_;
  uint64_t n_out_;
  size_t row_bytes_ = 0;
  const std::byte* data_ = nullptr;
  void (*decode_)(const std::byte*, size_t, float*) noexcept = nullptr;
};

}  // namespace billow::reference
