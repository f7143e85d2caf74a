// The attention sub-layer that decoders share: projections, optional norms of query and key heads,
// rotation, KV, output.
#pragma once

#include <string>

#include "arch/hparams.h"
#include "arch/model.h"
#include "arch/weights.h"
#include "nn/attention.h"
#include "nn/rope.h"

namespace billow::arch {

struct AttentionWeights {
  tensor::Tensor q;  // [n_heads * k_len][n_embd]
  tensor::Tensor k;  // [n_kv_heads * k_len][n_embd]
  tensor::Tensor v;  // [n_kv_heads * v_len][n_embd]
  tensor::Tensor o;  // [n_embd][n_heads * v_len]
  const float* q_bias = nullptr;
  const float* k_bias = nullptr;
  const float* v_bias = nullptr;
  const float* o_bias = nullptr;
  const float* q_norm = nullptr;  // [k_len], of each head, before the rotation
  const float* k_norm = nullptr;

  // `prefix` is "blk.0." and so on. Reads three matrices or one that holds them in the order q, k,
  // v; biases where they are.
  void load(const WeightLoader& load, const std::string& prefix, const Hparams& h);
  // As above, and the norms of query and key heads.
  void load_with_head_norms(const WeightLoader& load, const std::string& prefix, const Hparams& h);
};

// What the attention layers of one pass have in common.
struct AttentionPass {
  const nn::Compute& compute;
  kv::Cache& cache;
  const Batch& batch;
  std::vector<std::vector<std::span<const kv::BlockId>>> blocks;  // [group][sequence]
  std::vector<nn::Gap> gaps;               // [sequence]; empty where no sequence has one
  std::vector<uint32_t> closed_positions;  // of the rows, as if there were no gaps; likewise

  AttentionPass(const nn::Compute& compute, kv::Cache& cache, const Batch& batch);
  nn::KvLayer layer(size_t index) const;
  nn::KvRows rows(size_t index) const;

  struct Rotations {
    nn::Rope::Rotations at;      // the rows' positions
    nn::Rope::Rotations closed;  // closed_positions
  };
  Rotations rotations(const nn::Rope& rope) const;
};

// out = O(attention(rotate(norm(Q x)), rotate(norm(K x)), V x)) for layer `index`. x and out are
// [n][n_embd].
void attention_block(const AttentionPass& pass, size_t index, const AttentionWeights& weights,
                     const Hparams& h, const AttentionPass::Rotations& rotations,
                     nn::AttentionScale scale, tensor::Matrix x, tensor::Matrix out);

}  // namespace billow::arch
