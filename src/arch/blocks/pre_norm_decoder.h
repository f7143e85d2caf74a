// The decoder that most families are: an embedding, layers of x += attention(norm(x)) and
// x += feed_forward(norm(x)), and the vocabulary's logits.
#pragma once

#include <string>
#include <vector>

#include "arch/blocks/attention.h"
#include "arch/blocks/feed_forward.h"
#include "arch/blocks/output.h"

namespace billow::arch {

struct PreNormLayer {
  const float* attn_norm = nullptr;  // [n_embd]
  AttentionWeights attention;
  const float* ffn_norm = nullptr;  // [n_embd]
  FeedForwardWeights feed_forward;

  void load(const WeightLoader& load, const std::string& prefix, const Hparams& h);
};

struct PreNormDecoder {
  Hparams h;
  nn::Rope rope;
  nn::AttentionScale scale;
  OutputWeights output;
  std::vector<PreNormLayer> layers;

  // The weights, as `h` says; h is read before.
  void load(const WeightLoader& load);
  // As Model::forward.
  void forward(const nn::Compute& compute, kv::Cache& cache, const Batch& batch,
               const Outputs& out) const;
};

}  // namespace billow::arch
