// The two dense layers of sentence-transformers after pooling (EmbeddingGemma), without biases or
// activations: vector = second (first vector). llama.cpp names them dense_2 and dense_3, Ollama
// names them dense.0 and dense.1.
#pragma once

#include "arch/weights.h"
#include "nn/compute.h"

namespace billow::arch {

class Projection {
 public:
  static bool is_in(const gguf::File& file);
  // Loads the projection if the file has one. Throws Error if its vectors do not have n_embd
  // values.
  void load(const WeightLoader& load, size_t n_embd);
  explicit operator bool() const noexcept { return static_cast<bool>(first_); }

  // Replaces x, [n][n_embd].
  void apply(const nn::Compute& compute, tensor::Matrix x) const;

 private:
  tensor::Tensor first_;   // [n][n_embd]
  tensor::Tensor second_;  // [n_embd][n]
};

}  // namespace billow::arch
