#include "arch/blocks/attention.h"

#include <algorithm>

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
  const auto has_gap = [](const kv::BlockTable* table) {
    return table->gap_begin() < table->gap_end();
  };
  if (std::ranges::none_of(batch.tables, has_gap)) return;
  for (const kv::BlockTable* table : batch.tables)
    gaps.push_back({table->gap_begin(), table->gap_end()});
  for (size_t row = 0; row < batch.positions.size(); ++row) {
    const size_t n_gap = gaps[batch.sequences[row]].n();
    closed_positions.push_back(batch.positions[row] - static_cast<uint32_t>(n_gap));
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
  return {batch.positions, batch.sequences, blocks[cache.layout().layers[index].group], gaps};
}

AttentionPass::Rotations AttentionPass::rotations(const nn::Rope& rope) const {
  return {rope.rotations(compute, batch.positions), rope.rotations(compute, closed_positions)};
}

void attention_block(const AttentionPass& pass, size_t index, const AttentionWeights& weights,
                     const Hparams& h, const AttentionPass::Rotations& rotations,
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
  const nn::KvLayer layer = pass.layer(index);
  nn::Queries queries = {.q = q};
  if (!pass.gaps.empty() && layer.window == 0) {
    queries.before_gap = compute.arena.matrix(q.n_rows, q.n_cols);
    std::copy_n(q.data, q.n_rows * q.n_cols, queries.before_gap.data);
    nn::rotate(compute, rotations.closed, queries.before_gap, h.k_len);
  }
  nn::rotate(compute, rotations.at, q, h.k_len);
  nn::rotate(compute, rotations.at, k, h.k_len);
  nn::store_kv(compute, layer, pass.rows(index), k, v);
  nn::attention(compute, layer, pass.rows(index), queries, scale, attended);
  nn::linear(compute, attended, {{weights.o, weights.o_bias, out}});
}

}  // namespace billow::arch
