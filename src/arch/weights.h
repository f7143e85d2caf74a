// Finding a model's tensors in its file, with the shapes that they must have.
#pragma once

#include <string>

#include "gguf/file.h"
#include "nn/packed_weights.h"
#include "tensor/tensor.h"

namespace billow::arch {

enum class Presence : uint8_t { kRequired, kOptional };

// A missing required tensor, another shape or a format that is not computed with is an Error naming
// the tensor.
class WeightLoader {
 public:
  // `packed` is to make the matrices' packed forms; null: there are none.
  WeightLoader(const gguf::File& file, nn::PackedWeights* packed) : file_(file), packed_(packed) {}

  // A matrix of n_rows rows of n_cols values; any weight format.
  void matrix(const std::string& name, tensor::Tensor& out, size_t n_cols, size_t n_rows,
              Presence presence = Presence::kRequired) const;
  // The same, as it lies in the file only: to look rows up in, or to be cut.
  void plain_matrix(const std::string& name, tensor::Tensor& out, size_t n_cols, size_t n_rows,
                    Presence presence = Presence::kRequired) const;
  // Orders the packed form of a matrix that has none.
  void pack(tensor::Tensor& matrix) const;
  // n floats: norms and biases.
  void vector(const std::string& name, const float*& out, size_t n,
              Presence presence = Presence::kRequired) const;

  const gguf::File& file() const noexcept { return file_; }

 private:
  const gguf::TensorInfo* find(const std::string& name, size_t n_cols, size_t n_rows,
                               Presence presence) const;

  const gguf::File& file_;
  nn::PackedWeights* packed_;
};

}  // namespace billow::arch
