// Finds a model's tensors in its file and checks their shapes.
#pragma once

#include <string>
#include <vector>

#include "gguf/file.h"
#include "nn/packed_weights.h"
#include "tensor/tensor.h"

namespace billow::arch {

enum class Presence : uint8_t { kRequired, kOptional };

// Throws Error naming the tensor if a required tensor is missing, or if a tensor has another shape
// or an unsupported format.
class WeightLoader {
 public:
  // `packed` receives the matrices that need a packed form; null: no matrix gets one. `matrices`
  // receives each matrix that pack() is called for; may be null.
  WeightLoader(const gguf::File& file, nn::PackedWeights* packed,
               std::vector<tensor::Tensor>* matrices = nullptr)
      : file_(file), packed_(packed), matrices_(matrices) {}

  // Loads a matrix of n_rows rows of n_cols values, in any weight format. If the file has one
  // number in X.scale for X.weight, this number becomes the matrix's scale (files in NVFP4).
  void matrix(const std::string& name, tensor::Tensor& out, size_t n_cols, size_t n_rows,
              Presence presence = Presence::kRequired) const;
  // Loads a matrix without a packed form, so that the caller can cut or decode it.
  void plain_matrix(const std::string& name, tensor::Tensor& out, size_t n_cols, size_t n_rows,
                    Presence presence = Presence::kRequired) const;
  // Loads a matrix without a packed form, for looking up rows. It must not have a scale.
  void table(const std::string& name, tensor::Tensor& out, size_t n_cols, size_t n_rows) const;
  // Loads n consecutive matrices from one tensor of rank 3, for example of experts or heads. If the
  // file has n numbers in X.scale, they become the matrices' scales.
  void matrices(const std::string& name, std::vector<tensor::Tensor>& out, size_t n_cols,
                size_t n_rows, size_t n, Presence presence = Presence::kRequired) const;
  void plain_matrices(const std::string& name, std::vector<tensor::Tensor>& out, size_t n_cols,
                      size_t n_rows, size_t n, Presence presence = Presence::kRequired) const;
  // Adds a matrix that has no packed form to the matrices to pack. `is_expert`: one of many
  // matrices of a layer.
  void pack(tensor::Tensor& matrix, bool is_expert = false) const;
  // Loads n floats: norms and biases. The tensor may have several dimensions.
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

// Returns rows [begin, begin + n) of a matrix that has no packed form yet.
tensor::Tensor rows_of(const tensor::Tensor& whole, size_t begin, size_t n);

// Returns the number of rows of token_embd.weight. Throws Error if the file has no such matrix.
size_t vocabulary_rows(const gguf::File& file);

}  // namespace billow::arch
