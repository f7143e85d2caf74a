// The last step of a decoder: the final norm and the vocabulary's logits, for the rows that need
// them.
#pragma once

#include <string>

#include "arch/decoder/norm.h"
#include "arch/model.h"
#include "arch/weights.h"

namespace billow::arch {

struct OutputWeights {
  tensor::Tensor embedding;  // [n_vocab][n_embd], of the input
  tensor::Tensor output;     // [n_vocab][n_embd]; the embedding if the file has none
  const float* bias = nullptr;
  Norm norm;

  void load(const WeightLoader& load, const DecoderStyle& style, const Norms& norms);
  // Loads those of a predicting head. It shares the model's where the file has none with `prefix`.
  void load_head(const WeightLoader& load, const DecoderStyle& style, const Norms& norms,
                 const std::string& prefix, const OutputWeights& of_model);
};

// x is [n][n_embd].
void output_block(const nn::Compute& compute, const OutputWeights& weights,
                  const DecoderStyle& style, const Batch& batch, tensor::Matrix x,
                  const Outputs& out);

}  // namespace billow::arch
