#include "arch/decoder/attention.h"

#include <algorithm>
#include <cmath>

#include "arch/alibi.h"
#include "base/error.h"
#include "nn/for_rows.h"
#include "nn/linear.h"
#include "nn/rows.h"

namespace billow::arch {
namespace {

void clamp(const nn::Compute& compute, tensor::Matrix x, float limit) {
  nn::for_rows(compute, x.n_rows, [&](size_t row) {
    std::for_each_n(x.row(row), x.n_cols,
                    [limit](float& value) { value = std::clamp(value, -limit, limit); });
  });
}

// Each head of `pairs` has head_len values of q, then head_len values of the gate.
void split_gates(const nn::Compute& compute, tensor::Matrix pairs, size_t head_len,
                 tensor::Matrix q, tensor::Matrix gate) {
  nn::for_rows(compute, q.n_rows, [&](size_t row) {
    for (size_t at = 0; at < q.n_cols; at += head_len) {
      const float* const from = pairs.row(row) + 2 * at;
      std::copy_n(from, head_len, q.row(row) + at);
      std::copy_n(from + head_len, head_len, gate.row(row) + at);
    }
  });
}

}  // namespace

void AttentionWeights::load(const WeightLoader& load, const std::string& prefix,
                            const AttentionShape& shape) {
  const size_t n_all = shape.n_q + shape.n_k + shape.n_v;
  tensor::Tensor qkv;
  load.plain_matrix(prefix + "attn_qkv.weight", qkv, shape.n_embd, n_all, Presence::kOptional);
  if (qkv) {
    q = rows_of(qkv, 0, shape.n_q);
    k = rows_of(qkv, shape.n_q, shape.n_k);
    v = rows_of(qkv, shape.n_q + shape.n_k, shape.n_v);
    for (tensor::Tensor* part : {&q, &k, &v}) load.pack(*part);
    const float* bias = nullptr;
    load.vector(prefix + "attn_qkv.bias", bias, n_all, Presence::kOptional);
    if (bias != nullptr) {
      q_bias = bias;
      k_bias = bias + shape.n_q;
      v_bias = bias + shape.n_q + shape.n_k;
    }
  } else {
    load.matrix(prefix + "attn_q.weight", q, shape.n_embd, shape.n_q);
    load.vector(prefix + "attn_q.bias", q_bias, shape.n_q, Presence::kOptional);
    if (shape.n_k != 0) {
      load.matrix(prefix + "attn_k.weight", k, shape.n_embd, shape.n_k);
      load.vector(prefix + "attn_k.bias", k_bias, shape.n_k, Presence::kOptional);
    }
    if (shape.n_v != 0) {
      load.matrix(prefix + "attn_v.weight", v, shape.n_embd, shape.n_v);
      load.vector(prefix + "attn_v.bias", v_bias, shape.n_v, Presence::kOptional);
    }
  }
  load.matrix(prefix + "attn_output.weight", o, shape.n_attended, shape.n_embd);
  load.vector(prefix + "attn_output.bias", o_bias, shape.n_embd, Presence::kOptional);
}

Attention::Attention(const AttentionStyle& style, const WeightLoader& load,
                     const std::string& prefix, size_t n_embd, const Norms& norms)
    : style_(style) {
  const bool has_kv = !style.kv_layer;
  const size_t n_q = style.n_heads * style.k_len;
  const size_t n_k = has_kv ? style.n_kv_heads * style.k_len : 0;
  weights_.load(load, prefix,
                {.n_embd = n_embd,
                 .n_q = style.gated ? 2 * n_q : n_q,
                 .n_k = n_k,
                 .n_v = has_kv && !style.values_are_keys ? style.n_kv_heads * style.v_len : 0,
                 .n_attended = style.n_heads * style.v_len});
  if (style.own_gate)
    load.matrix(prefix + "attn_gate.weight", gate_, n_embd, style.n_heads * style.v_len);
  if (style.qk_norm != QkNorm::kNone && style.plain_qk_norm) {
    q_norm_ = norms.plain_rms();
    k_norm_ = norms.plain_rms();
    q_norm_len_ = style.k_len;
    k_norm_len_ = style.k_len;
  } else if (style.qk_norm != QkNorm::kNone) {
    // The tensors' shapes show which values are normed together: a head with shared weights, a head
    // with separate weights, or all heads as one row.
    const gguf::TensorInfo* info = load.file().find_tensor(prefix + "attn_q_norm.weight");
    const bool is_shared = info == nullptr || info->n_elements() == style.k_len;
    const bool is_own = !is_shared && info->n_dims == 2;
    norm_stride_ = is_own ? style.k_len : 0;
    q_norm_len_ = is_shared || is_own ? style.k_len : n_q;
    k_norm_len_ = is_shared || is_own ? style.k_len : n_k;
    q_norm_ = norms.load(load, prefix + "attn_q_norm", is_shared ? style.k_len : n_q);
    if (has_kv) k_norm_ = norms.load(load, prefix + "attn_k_norm", is_shared ? style.k_len : n_k);
  }
  if (style.v_norm) v_norm_ = norms.plain_rms();
  if (style.sinks) load.vector(prefix + "attn_sinks.weight", sinks_, style.n_heads);
  if (style.alibi > 0.0f) slopes_ = alibi_slopes(style.n_heads, style.alibi);
}

kv::LayerNeed Attention::kv_need() const noexcept {
  return {.n_heads = static_cast<uint32_t>(style_.kv_layer ? 0 : style_.n_kv_heads),
          .k_len = static_cast<uint32_t>(style_.k_len),
          .v_len = static_cast<uint32_t>(style_.v_len),
          .window = static_cast<uint32_t>(style_.window),
          .has_key_bias = weights_.k_bias != nullptr};
}

Attention::Heads Attention::project(const Pass& pass, tensor::Matrix x) const {
  const nn::Compute& compute = pass.compute;
  tensor::Arena& arena = compute.arena;
  Heads heads;
  heads.q = arena.matrix(x.n_rows, style_.n_heads * style_.k_len);
  tensor::Matrix q = heads.q;
  if (style_.gated) {
    heads.gate = arena.matrix(x.n_rows, heads.q.n_cols);
    q = arena.matrix(x.n_rows, weights_.q.n_rows);
  }
  if (style_.kv_layer) {
    nn::linear(compute, x, {{weights_.q, weights_.q_bias, q}});
  } else {
    heads.k = arena.matrix(x.n_rows, weights_.k.n_rows);
    heads.v = arena.matrix(x.n_rows, style_.n_kv_heads * style_.v_len);
    if (style_.values_are_keys) {
      nn::linear(compute, x,
                 {{weights_.q, weights_.q_bias, q}, {weights_.k, weights_.k_bias, heads.k}});
      if (compute.sizing == nullptr)
        std::copy_n(heads.k.data, heads.v.n_rows * heads.v.n_cols, heads.v.data);
    } else {
      nn::linear(compute, x,
                 {{weights_.q, weights_.q_bias, q},
                  {weights_.k, weights_.k_bias, heads.k},
                  {weights_.v, weights_.v_bias, heads.v}});
    }
  }
  if (style_.gated) split_gates(compute, q, style_.k_len, heads.q, heads.gate);
  if (style_.own_gate) {
    heads.gate = arena.matrix(x.n_rows, gate_.n_rows);
    nn::linear(compute, x, {{gate_, nullptr, heads.gate}});
  }
  if (style_.clip > 0.0f)
    for (const tensor::Matrix& part : {heads.q, heads.k, heads.v})
      clamp(compute, part, style_.clip);
  return heads;
}

void Attention::norm_heads(const nn::Compute& compute, const Heads& heads) const {
  apply_to_heads(q_norm_, compute, heads.q, q_norm_len_, norm_stride_);
  if (heads.k.data != nullptr) apply_to_heads(k_norm_, compute, heads.k, k_norm_len_, norm_stride_);
}

void Attention::forward(const Pass& pass, size_t index, tensor::Matrix x,
                        tensor::Matrix out) const {
  const nn::Compute& compute = pass.compute;
  const tensor::ArenaScope scope(compute.arena);
  const Heads heads = project(pass, x);
  if (style_.qk_norm == QkNorm::kBeforeRope) norm_heads(compute, heads);
  if (style_.v_norm && heads.v.data != nullptr)
    apply_to_heads(v_norm_, compute, heads.v, style_.v_len, 0);
  scale_by_position(pass, style_.temperature, heads.q);
  const size_t kv_index = style_.kv_layer.value_or(index);
  nn::KvLayer layer = pass.layer(kv_index);
  layer.chunk = style_.chunk;
  nn::Queries queries = {.q = heads.q};
  const bool split = pass.has_gaps && layer.window == 0;
  if (!style_.rope) {
    if (split) queries.before_gap = heads.q;
  } else {
    const Pass::Rotations& rotations = pass.rotations[*style_.rope];
    if (split) {
      queries.before_gap = compute.arena.matrix(heads.q.n_rows, heads.q.n_cols);
      if (compute.sizing == nullptr)
        std::copy_n(heads.q.data, heads.q.n_rows * heads.q.n_cols, queries.before_gap.data);
      nn::rotate(compute, rotations.closed, queries.before_gap, style_.k_len);
    }
    nn::rotate(compute, rotations.at, heads.q, style_.k_len);
    if (heads.k.data != nullptr) nn::rotate(compute, rotations.at, heads.k, style_.k_len);
  }
  if (style_.qk_norm == QkNorm::kAfterRope) {
    norm_heads(compute, heads);
    if (split && style_.rope)
      apply_to_heads(q_norm_, compute, queries.before_gap, q_norm_len_, norm_stride_);
  }
  nn::KvRows rows = pass.rows(kv_index);
  if (style_.whole_pictures) rows.last = pass.batch.last_seen;
  if (heads.k.data != nullptr) nn::store_kv(compute, layer, rows, heads.k, heads.v);
  const tensor::Matrix attended = compute.arena.matrix(x.n_rows, weights_.o.n_cols);
  nn::attention(compute, layer, rows, queries,
                {.factor = style_.scale,
                 .softcap = style_.softcap,
                 .sinks = sinks_,
                 .slopes = slopes_.empty() ? nullptr : slopes_.data(),
                 .reads_in_bf16 = nn::reads_in_bf16(compute.kernels, weights_.o)},
                attended);
  if (heads.gate.data != nullptr) nn::sigmoid_multiply(compute, attended, heads.gate);
  nn::linear(compute, attended, {{weights_.o, weights_.o_bias, out}});
}

}  // namespace billow::arch
