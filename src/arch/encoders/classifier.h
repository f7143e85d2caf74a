// The classifier of rerankers: scores = output(norm(activation(dense x))), or one of the two
// products alone; a norm only where the file has one.
#pragma once

#include "arch/decoder/norm.h"
#include "arch/encoders/style.h"
#include "arch/weights.h"
#include "nn/compute.h"

namespace billow::arch {

struct ClassifierWeights {
  tensor::Tensor dense;   // [n][n_embd], if there is one
  tensor::Tensor output;  // [n_labels][n], likewise
  const float* dense_bias = nullptr;
  const float* output_bias = nullptr;

  ClassifierStyle style;
  Norm norm;

  // Of a file that need not have one. `norms` must outlive it.
  void load(const WeightLoader& load, const Norms& norms, const ClassifierStyle& its_style,
            size_t n_embd);
  size_t n_labels() const noexcept { return output ? output.n_rows : dense.n_rows; }
};

// x is [n][n_embd], scores [n][n_labels].
void classify(const nn::Compute& compute, const ClassifierWeights& weights, tensor::Matrix x,
              tensor::Matrix scores);

}  // namespace billow::arch
