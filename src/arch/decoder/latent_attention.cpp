#include "arch/decoder/latent_attention.h"

#include <algorithm>

#include "nn/linear.h"
#include "nn/rows.h"

namespace billow::arch {
namespace {

// Copies columns: `n` values of each row, from column `from` to column `to`.
void copy_columns(const nn::Compute& compute, tensor::Matrix in, size_t from, tensor::Matrix out,
                  size_t to, size_t n) {
  if (compute.sizing != nullptr) return;
  for (size_t row = 0; row < in.n_rows; ++row)
    std::copy_n(in.row(row) + from, n, out.row(row) + to);
}

// Rows [head * n, (head + 1) * n) of a matrix: what belongs to one head of n tokens.
tensor::Matrix of_head(tensor::Matrix all, size_t head, size_t n) {
  return {all.data + head * n * all.n_cols, n, all.n_cols};
}

}  // namespace

LatentAttention::LatentAttention(const LatentAttentionStyle& style, const WeightLoader& load,
                                 const std::string& prefix, size_t n_embd, const Norms& norms)
    : style_(style) {
  const size_t n_q = style.n_heads * style.k_len;
  if (style.q_rank != 0) {
    load.matrix(prefix + "attn_q_a.weight", q_a_, n_embd, style.q_rank);
    q_a_norm_ = norms.load(load, prefix + "attn_q_a_norm", style.q_rank);
    load.matrix(prefix + "attn_q_b.weight", q_, style.q_rank, n_q);
  } else {
    load.matrix(prefix + "attn_q.weight", q_, n_embd, n_q);
  }
  load.matrix(prefix + "attn_kv_a_mqa.weight", kv_a_, n_embd, style.kv_rank + style.n_rot);
  kv_a_norm_ = norms.load(load, prefix + "attn_kv_a_norm", style.kv_rank);
  load.matrices(prefix + "attn_k_b.weight", k_b_, style.k_len - style.n_rot, style.kv_rank,
                style.n_heads);
  load.matrices(prefix + "attn_v_b.weight", v_b_, style.kv_rank, style.v_len, style.n_heads);
  load.matrix(prefix + "attn_output.weight", o_, style.n_heads * style.v_len, n_embd);
}

kv::LayerNeed LatentAttention::kv_need() const noexcept {
  return {.n_heads = 1,
          .k_len = static_cast<uint32_t>(style_.kv_rank + style_.n_rot),
          .v_len = static_cast<uint32_t>(style_.kv_rank)};
}

void LatentAttention::queries(const nn::Compute& compute, tensor::Matrix x,
                              tensor::Matrix q) const {
  if (!q_a_) return nn::linear(compute, x, {{q_, nullptr, q}});
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix a = compute.arena.matrix(x.n_rows, style_.q_rank);
  nn::linear(compute, x, {{q_a_, nullptr, a}});
  apply(q_a_norm_, compute, a, a);
  nn::linear(compute, a, {{q_, nullptr, q}});
}

void LatentAttention::forward(const Pass& pass, size_t index, tensor::Matrix x,
                              tensor::Matrix out) const {
  const nn::Compute& compute = pass.compute;
  tensor::Arena& arena = compute.arena;
  const tensor::ArenaScope scope(arena);
  const size_t n = x.n_rows;
  const size_t n_heads = style_.n_heads;
  const size_t n_plain = style_.k_len - style_.n_rot;
  const size_t n_key = style_.kv_rank + style_.n_rot;
  // Queries: the plain part by head, brought to the compressed state; then the part that rotates.
  const tensor::Matrix absorbed = arena.matrix(n, n_heads * n_key);
  const tensor::Matrix before_gap = pass.has_gaps ? arena.matrix(n, n_heads * n_key) : absorbed;
  const tensor::Matrix key = arena.matrix(n, n_key);
  const tensor::Matrix value = arena.matrix(n, style_.kv_rank);
  const tensor::Matrix attended = arena.matrix(n, n_heads * style_.kv_rank);
  {
    const tensor::ArenaScope of_queries(arena);
    const tensor::Matrix q = arena.matrix(n, n_heads * style_.k_len);
    queries(compute, x, q);
    const tensor::Matrix plain = arena.matrix(n_heads * n, n_plain);
    const tensor::Matrix state = arena.matrix(n_heads * n, style_.kv_rank);
    std::vector<nn::RowsProduct> products;
    for (size_t h = 0; h < n_heads; ++h) {
      copy_columns(compute, q, h * style_.k_len, of_head(plain, h, n), 0, n_plain);
      products.push_back({h * n, (h + 1) * n, k_b_[h], nullptr, state});
    }
    nn::linear_of_rows(compute, plain, products);
    const auto put = [&](const Pass::Rotations* rotations, bool closed, tensor::Matrix to) {
      const tensor::ArenaScope of_part(arena);
      const tensor::Matrix rotated = arena.matrix(n, n_heads * style_.n_rot);
      for (size_t h = 0; h < n_heads; ++h) {
        copy_columns(compute, q, h * style_.k_len + n_plain, rotated, h * style_.n_rot,
                     style_.n_rot);
      }
      if (rotations != nullptr) {
        nn::rotate(compute, closed ? rotations->closed : rotations->at, rotated, style_.n_rot);
      }
      for (size_t h = 0; h < n_heads; ++h) {
        copy_columns(compute, of_head(state, h, n), 0, to, h * n_key, style_.kv_rank);
        copy_columns(compute, rotated, h * style_.n_rot, to, h * n_key + style_.kv_rank,
                     style_.n_rot);
      }
    };
    const Pass::Rotations* rotations = style_.rope ? &pass.rotations[*style_.rope] : nullptr;
    put(rotations, false, absorbed);
    if (pass.has_gaps) put(rotations, true, before_gap);
    // The row of the cache.
    const tensor::Matrix row = arena.matrix(n, n_key);
    nn::linear(compute, x, {{kv_a_, nullptr, row}});
    copy_columns(compute, row, 0, value, 0, style_.kv_rank);
    apply(kv_a_norm_, compute, value, value);
    const tensor::Matrix rotated = arena.matrix(n, style_.n_rot);
    copy_columns(compute, row, style_.kv_rank, rotated, 0, style_.n_rot);
    if (rotations != nullptr) nn::rotate(compute, rotations->at, rotated, style_.n_rot);
    copy_columns(compute, value, 0, key, 0, style_.kv_rank);
    copy_columns(compute, rotated, 0, key, style_.kv_rank, style_.n_rot);
  }
  const nn::KvLayer layer = pass.layer(index);
  nn::store_kv(compute, layer, pass.rows(index), key, value);
  nn::Queries to_attend = {.q = absorbed};
  if (pass.has_gaps) to_attend.before_gap = before_gap;
  nn::attention(compute, layer, pass.rows(index), to_attend, {.factor = style_.scale}, attended);
  // What heads attended to, by head, from the compressed state to values.
  const tensor::Matrix state = arena.matrix(n_heads * n, style_.kv_rank);
  const tensor::Matrix values = arena.matrix(n_heads * n, style_.v_len);
  std::vector<nn::RowsProduct> products;
  for (size_t h = 0; h < n_heads; ++h) {
    copy_columns(compute, attended, h * style_.kv_rank, of_head(state, h, n), 0, style_.kv_rank);
    products.push_back({h * n, (h + 1) * n, v_b_[h], nullptr, values});
  }
  nn::linear_of_rows(compute, state, products);
  const tensor::Matrix joined = arena.matrix(n, n_heads * style_.v_len);
  for (size_t h = 0; h < n_heads; ++h)
    copy_columns(compute, of_head(values, h, n), 0, joined, h * style_.v_len, style_.v_len);
  nn::linear(compute, joined, {{o_, nullptr, out}});
}

}  // namespace billow::arch
