// Finding a model's tensors in its file, with the shapes that they must have.
#pragma once

#include <string>
#include <vector>

#include "gguf/file.h"
#include "nn/packed_weights.h"
#include "tensor/tensor.h"

namespace billow::arch {

enum class Presence : uint8_t { kRequired, kOptional };

// A missing required tensor, another shape or a format that is not computed with is an Error naming
// the tensor.
class WeightLoader {
 public:
  // `packed` is to make the matrices' packed forms; null: there are none. `matrices` gets each
  // matrix that is ordered to be packed; null: nobody asks.
  WeightLoader(const gguf::File& file, nn::PackedWeights* packed,
               std::vector<tensor::Tensor>* matrices = nullptr)
      : file_(file), packed_(packed), matrices_(matrices) {}

  // A matrix of n_rows rows of n_cols values; any weight format. One number in X.scale beside
  // X.weight becomes the matrix's scale (files in NVFP4).
  void matrix(const std::string& name, tensor::Tensor& out, size_t n_cols, size_t n_rows,
              Presence presence = Presence::kRequired) const;
  // The same, as it lies in the file only: to be cut, or decoded.
  void plain_matrix(const std::string& name, tensor::Tensor& out, size_t n_cols, size_t n_rows,
                    Presence presence = Presence::kRequired) const;
  // The same, to look rows up in: it can have no scale.
  void table(const std::string& name, tensor::Tensor& out, size_t n_cols, size_t n_rows) const;
  // n matrices that lie behind one another in a tensor of rank 3: those of experts, or of heads. n
  // numbers in X.scale are their scales.
  void matrices(const std::string& name, std::vector<tensor::Tensor>& out, size_t n_cols,
                size_t n_rows, size_t n, Presence presence = Presence::kRequired) const;
  void plain_matrices(const std::string& name, std::vector<tensor::Tensor>& out, size_t n_cols,
                      size_t n_rows, size_t n, Presence presence = Presence::kRequired) const;
  // Orders the packed form of a matrix that has none.
  void pack(tensor::Tensor& matrix) const;
  // n floats: norms and biases. They may stand in several dimensions.
  void vector(const std::string& name, const float*& out, size_t n,
              Presence presence = Presence::kRequired) const;
  bool has(const std::string& name) const { return file_.find_tensor(name) != nullptr; }

  const gguf::File& file() const noexcept { return file_; }

 private:
  const gguf::TensorInfo* find(const std::string& name, Presence presence) const;
  [[noreturn]] void refuse_shape(const gguf::TensorInfo& info, const std::string& wanted) const;
  [[noreturn]] void refuse_scale(const std::string& name) const;
  quant::Type type_of(const gguf::TensorInfo& info) const;
  const float* scales_of(const std::string& name, size_t n) const;

  const gguf::File& file_;
  nn::PackedWeights* packed_;
  std::vector<tensor::Tensor>* matrices_;
};

// Rows [begin, begin + n) of a matrix that has no packed form yet.
tensor::Tensor rows_of(const tensor::Tensor& whole, size_t begin, size_t n);

// Rows of token_embd.weight, which every model has; an Error where the file has no such matrix.
size_t vocabulary_rows(const gguf::File& file);

}  // namespace billow::arch
