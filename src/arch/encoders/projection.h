// The two dense layers that sentence-transformers puts behind pooling (EmbeddingGemma): vector =
// second (first vector), without biases or activations. llama.cpp names them dense_2 and dense_3,
// Ollama dense.0 and dense.1.
#pragma once

#include "arch/weights.h"
#include "nn/compute.h"

namespace billow::arch {

class Projection {
 public:
  static bool is_in(const gguf::File& file);
  // Of a file that need not have one. Throws Error for one that makes vectors of another length.
  void load(const WeightLoader& load, size_t n_embd);
  explicit operator bool() const noexcept { return static_cast<bool>(first_); }

  // x, [n][n_embd], is replaced.
  void apply(const nn::Compute& compute, tensor::Matrix x) const;

 private:
  tensor::Tensor first_;   // [n][n_embd]
  tensor::Tensor second_;  // [n_embd][n]
};

}  // namespace billow::arch
