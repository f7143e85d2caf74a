#include "arch/decoder/latent_attention.h"

#include <algorithm>

#include "nn/for_rows.h"
#include "nn/linear.h"
#include "nn/rows.h"

namespace billow::arch {
namespace {

// Pieces of the rows of a matrix, one for each head.
struct Pieces {
  tensor::Matrix of;
  size_t begin = 0;      // offset of the first head's piece in its row
  size_t stride = 0;     // distance of adjacent heads
  bool by_head = false;  // all rows of one head come before those of the next head
};

float* piece(const Pieces& pieces, size_t n_rows, size_t row, size_t head) {
  const size_t at = pieces.by_head ? head * n_rows + row : row;
  return pieces.of.row(at) + pieces.begin + head * pieces.stride;
}

// Copies n values of each head of each of n_rows rows.
void copy_pieces(const nn::Compute& compute, size_t n_rows, size_t n_heads, size_t n, Pieces from,
                 Pieces to) {
  nn::for_rows(compute, n_rows, [&](size_t row) {
    for (size_t head = 0; head < n_heads; ++head)
      std::copy_n(piece(from, n_rows, row, head), n, piece(to, n_rows, row, head));
  });
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
  // Queries: the plain part by head, projected to the compressed state; then the part that rotates.
  const tensor::Matrix absorbed = arena.matrix(n, n_heads * n_key);
  const tensor::Matrix before_gap = pass.has_gaps ? arena.matrix(n, n_heads * n_key) : absorbed;
  const tensor::Matrix key = arena.matrix(n, n_key);
  const tensor::Matrix value = arena.matrix(n, style_.kv_rank);
  const tensor::Matrix attended = arena.matrix(n, n_heads * style_.kv_rank);
  {
    const tensor::ArenaScope of_queries(arena);
    const tensor::Matrix q = arena.matrix(n, n_heads * style_.k_len);
    queries(compute, x, q);
    scale_by_position(pass, style_.temperature, q);
    const tensor::Matrix plain = arena.matrix(n_heads * n, n_plain);
    const tensor::Matrix state = arena.matrix(n_heads * n, style_.kv_rank);
    std::vector<nn::RowsProduct> products;
    copy_pieces(compute, n, n_heads, n_plain, {q, 0, style_.k_len}, {plain, 0, 0, true});
    for (size_t h = 0; h < n_heads; ++h)
      products.push_back({h * n, (h + 1) * n, k_b_[h], nullptr, state});
    nn::linear_of_rows(compute, plain, {}, products);
    const auto put = [&](const Pass::Rotations* rotations, bool closed, tensor::Matrix to) {
      const tensor::ArenaScope of_part(arena);
      const tensor::Matrix rotated = arena.matrix(n, n_heads * style_.n_rot);
      copy_pieces(compute, n, n_heads, style_.n_rot, {q, n_plain, style_.k_len},
                  {rotated, 0, style_.n_rot});
      if (rotations != nullptr) {
        nn::rotate(compute, closed ? rotations->closed : rotations->at, rotated, style_.n_rot);
      }
      copy_pieces(compute, n, n_heads, style_.kv_rank, {state, 0, 0, true}, {to, 0, n_key});
      copy_pieces(compute, n, n_heads, style_.n_rot, {rotated, 0, style_.n_rot},
                  {to, style_.kv_rank, n_key});
    };
    const Pass::Rotations* rotations = style_.rope ? &pass.rotations[*style_.rope] : nullptr;
    put(rotations, false, absorbed);
    if (pass.has_gaps) put(rotations, true, before_gap);
    // The row for the cache.
    const tensor::Matrix row = arena.matrix(n, n_key);
    nn::linear(compute, x, {{kv_a_, nullptr, row}});
    copy_pieces(compute, n, 1, style_.kv_rank, {row}, {value});
    apply(kv_a_norm_, compute, value, value);
    const tensor::Matrix rotated = arena.matrix(n, style_.n_rot);
    copy_pieces(compute, n, 1, style_.n_rot, {row, style_.kv_rank}, {rotated});
    if (rotations != nullptr) nn::rotate(compute, rotations->at, rotated, style_.n_rot);
    copy_pieces(compute, n, 1, style_.kv_rank, {value}, {key});
    copy_pieces(compute, n, 1, style_.n_rot, {rotated}, {key, style_.kv_rank});
  }
  const nn::KvLayer layer = pass.layer(index);
  nn::store_kv(compute, layer, pass.rows(index), key, value);
  nn::Queries to_attend = {.q = absorbed};
  if (pass.has_gaps) to_attend.before_gap = before_gap;
  nn::attention(compute, layer, pass.rows(index), to_attend,
                {.factor = style_.scale, .reads_in_bf16 = nn::reads_in_bf16(compute.kernels, o_)},
                attended);
  // Projects the heads' results from the compressed state to values, head by head.
  const tensor::Matrix state = arena.matrix(n_heads * n, style_.kv_rank);
  const tensor::Matrix values = arena.matrix(n_heads * n, style_.v_len);
  std::vector<nn::RowsProduct> products;
  copy_pieces(compute, n, n_heads, style_.kv_rank, {attended, 0, style_.kv_rank},
              {state, 0, 0, true});
  for (size_t h = 0; h < n_heads; ++h)
    products.push_back({h * n, (h + 1) * n, v_b_[h], nullptr, values});
  nn::linear_of_rows(compute, state, {}, products);
  const tensor::Matrix joined = arena.matrix(n, n_heads * style_.v_len);
  copy_pieces(compute, n, n_heads, style_.v_len, {values, 0, 0, true}, {joined, 0, style_.v_len});
  nn::linear(compute, joined, {{o_, nullptr, out}});
}

}  // namespace billow::arch
