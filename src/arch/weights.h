// Finding a model's tensors in its file, with the shapes that they must have.
#pragma once

#include <string>

#include "gguf/file.h"
#include "tensor/tensor.h"

namespace billow::arch {

enum class Presence : uint8_t { kRequired, kOptional };

// The visitor that an architecture's for_each_tensor is called with. A missing required tensor,
// another shape or a format that is not computed with is an Error naming the tensor.
class WeightLoader {
 public:
  explicit WeightLoader(const gguf::File& file) : file_(file) {}

  // A matrix of n_rows rows of n_cols values; any weight format.
  void matrix(const std::string& name, tensor::Tensor& out, size_t n_cols, size_t n_rows,
              Presence presence = Presence::kRequired) const;
  // n floats: norms and biases.
  void vector(const std::string& name, const float*& out, size_t n,
              Presence presence = Presence::kRequired) const;

  const gguf::File& file() const noexcept { return file_; }

 private:
  const gguf::TensorInfo* find(const std::string& name, size_t n_cols, size_t n_rows,
                               Presence presence) const;

  const gguf::File& file_;
};

}  // namespace billow::arch
