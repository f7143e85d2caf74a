// The classifier of rerankers: scores = output(norm(activation(dense x))). A file may have only one
// of the two products. The norm is optional.
#pragma once

#include "arch/decoder/norm.h"
#include "arch/encoders/style.h"
#include "arch/weights.h"
#include "nn/compute.h"

namespace billow::arch {

struct ClassifierWeights {
  tensor::Tensor dense;   // [n][n_embd]; optional
  tensor::Tensor output;  // [n_labels][n]; optional
  const float* dense_bias = nullptr;
  const float* output_bias = nullptr;

  ClassifierStyle style;
  Norm norm;

  // Loads the classifier if the file has one. `norms` must outlive the classifier.
  void load(const WeightLoader& load, const Norms& norms, const ClassifierStyle& its_style,
            size_t n_embd);
  size_t n_labels() const noexcept { return output ? output.n_rows : dense.n_rows; }
};

// Computes the scores. x is [n][n_embd], scores is [n][n_labels].
void classify(const nn::Compute& compute, const ClassifierWeights& weights, tensor::Matrix x,
              tensor::Matrix scores);

}  // namespace billow::arch
