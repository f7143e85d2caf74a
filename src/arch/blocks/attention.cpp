#include "arch/blocks/attention.h"

#include "nn/linear.h"
#include "nn/rows.h"

namespace billow::arch {
namespace {

// Rows [begin, begin + n) of a matrix.
tensor::Tensor rows_of(const tensor::Tensor& whole, size_t begin, size_t n) {
  return {whole.row(begin), whole.type, whole.n_cols, n, nullptr};
}

}  // namespace

void AttentionWeights::load(const WeightLoader& load, const std::string& prefix, const Hparams& h) {
  const size_t n_q = h.n_heads * h.k_len;
  const size_t n_k = h.n_kv_heads * h.k_len;
  const size_t n_v = h.n_kv_heads * h.v_len;
  tensor::Tensor qkv;
  load.plain_matrix(prefix + "attn_qkv.weight", qkv, h.n_embd, n_q + n_k + n_v,
                    Presence::kOptional);
  if (qkv) {
    q = rows_of(qkv, 0, n_q);
    k = rows_of(qkv, n_q, n_k);
    v = rows_of(qkv, n_q + n_k, n_v);
    for (tensor::Tensor* part : {&q, &k, &v}) load.pack(*part);
    const float* bias = nullptr;
    load.vector(prefix + "attn_qkv.bias", bias, n_q + n_k + n_v, Presence::kOptional);
    if (bias != nullptr) {
      q_bias = bias;
      k_bias = bias + n_q;
      v_bias = bias + n_q + n_k;
    }
  } else {
    load.matrix(prefix + "attn_q.weight", q, h.n_embd, n_q);
    load.matrix(prefix + "attn_k.weight", k, h.n_embd, n_k);
    load.matrix(prefix + "attn_v.weight", v, h.n_embd, n_v);
    load.vector(prefix + "attn_q.bias", q_bias, n_q, Presence::kOptional);
    load.vector(prefix + "attn_k.bias", k_bias, n_k, Presence::kOptional);
    load.vector(prefix + "attn_v.bias", v_bias, n_v, Presence::kOptional);
  }
  load.matrix(prefix + "attn_output.weight", o, h.n_heads * h.v_len, h.n_embd);
  load.vector(prefix + "attn_output.bias", o_bias, h.n_embd, Presence::kOptional);
}

void AttentionWeights::load_with_head_norms(const WeightLoader& loader, const std::string& prefix,
                                            const Hparams& h) {
  load(loader, prefix, h);
  loader.vector(prefix + "attn_q_norm.weight", q_norm, h.k_len);
  loader.vector(prefix + "attn_k_norm.weight", k_norm, h.k_len);
}

AttentionPass::AttentionPass(const nn::Compute& compute_, kv::Cache& cache_, const Batch& batch_)
    : compute(compute_), cache(cache_), batch(batch_), blocks(cache.layout().groups.size()) {
  for (size_t group = 0; group < blocks.size(); ++group) {
    for (const kv::BlockTable* table : batch.tables) blocks[group].push_back(table->blocks(group));
  }
}

nn::KvLayer AttentionPass::layer(size_t index) const {
  const kv::LayerPlace& place = cache.layout().layers[index];
  const kv::BlockPool& pool = cache.pool(place.group);
  return {.type = place.type,
          .base = pool.base(),
          .block_bytes = pool.block_bytes(),
          .k_offset = place.k_offset(0),
          .v_offset = place.v_offset(0),
          .head_bytes = place.head_bytes(),
          .n_heads = place.need.n_heads,
          .k_len = place.need.k_len,
          .v_len = place.need.v_len,
          .window = place.need.window};
}

nn::KvRows AttentionPass::rows(size_t index) const {
  return {batch.positions, batch.sequences, blocks[cache.layout().layers[index].group]};
}

void attention_block(const AttentionPass& pass, size_t index, const AttentionWeights& weights,
                     const Hparams& h, const nn::Rope::Rotations& rotations,
                     nn::AttentionScale scale, tensor::Matrix x, tensor::Matrix out) {
  const nn::Compute& compute = pass.compute;
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix q = compute.arena.matrix(x.n_rows, weights.q.n_rows);
  const tensor::Matrix k = compute.arena.matrix(x.n_rows, weights.k.n_rows);
  const tensor::Matrix v = compute.arena.matrix(x.n_rows, weights.v.n_rows);
  const tensor::Matrix attended = compute.arena.matrix(x.n_rows, weights.o.n_cols);
  nn::linear(compute, x,
             {{weights.q, weights.q_bias, q},
              {weights.k, weights.k_bias, k},
              {weights.v, weights.v_bias, v}});
  if (weights.q_norm != nullptr) {
    nn::rms_norm_heads(compute, q, h.k_len, weights.q_norm, h.norm_epsilon);
    nn::rms_norm_heads(compute, k, h.k_len, weights.k_norm, h.norm_epsilon);
  }
  nn::rotate(compute, rotations, q, h.k_len);
  nn::rotate(compute, rotations, k, h.k_len);
  nn::store_kv(compute, pass.layer(index), pass.rows(index), k, v);
  nn::attention(compute, pass.layer(index), pass.rows(index), q, scale, attended);
  nn::linear(compute, attended, {{weights.o, weights.o_bias, out}});
}

}  // namespace billow::arch
