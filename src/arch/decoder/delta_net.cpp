#include "arch/decoder/delta_net.h"

#include <cmath>

#include "nn/activation.h"
#include "nn/for_rows.h"
#include "nn/linear.h"
#include "nn/rows.h"

namespace billow::arch {
DeltaNet::DeltaNet(const DeltaNetStyle& style, const WeightLoader& load, const std::string& prefix,
                   size_t n_embd, const Norms& norms)
    : style_(style) {
  load.matrix(prefix + "attn_qkv.weight", qkv_, n_embd, n_convolved());
  load.matrix(prefix + "attn_gate.weight", gate_, n_embd, n_values());
  if (load.has(prefix + "ssm_ba.weight")) {
    load.matrix(prefix + "ssm_ba.weight", joint_, n_embd, 2 * style.n_heads);
  } else {
    load.matrix(prefix + "ssm_alpha.weight", alpha_, n_embd, style.n_heads);
    load.matrix(prefix + "ssm_beta.weight", beta_, n_embd, style.n_heads);
  }
  conv_ = {.taps = style.taps, .silu = true};
  load.vector(prefix + "ssm_conv1d.weight", conv_.weights, style.taps * n_convolved());
  // Ollama's files name the bias ssm_dt.
  load.vector(prefix + (load.has(prefix + "ssm_dt") ? "ssm_dt" : "ssm_dt.bias"), step_bias_,
              style.n_heads);
  load.vector(prefix + "ssm_a", rates_, style.n_heads);
  norm_ = norms.load(load, prefix + "ssm_norm", style.value_len);
  load.matrix(prefix + "ssm_out.weight", out_, n_values(), n_embd);
  query_norm_ = {style.key_len, norm_.eps, 1.0f / std::sqrt(static_cast<float>(style.key_len))};
  key_norm_ = {style.key_len, norm_.eps};
  state_ = {.n_heads = style.n_heads,
            .n_keys = style.key_len,
            .n_values = style.value_len,
            .n_key_heads = style.n_key_heads,
            .tiled = style.tiled,
            .corrects = true};
}

kv::LayerNeed DeltaNet::kv_need() const noexcept {
  return {.state_floats =
              nn::conv_state_floats(style_.taps, n_convolved()) + state_.state_floats()};
}

void DeltaNet::gates(const nn::Compute& compute, tensor::Matrix x, tensor::Matrix decay,
                     tensor::Matrix gain) const {
  const tensor::ArenaScope scope(compute.arena);
  if (joint_) {
    const tensor::Matrix both = compute.arena.matrix(x.n_rows, 2 * style_.n_heads);
    nn::linear(compute, x, {{joint_, nullptr, both}});
    const size_t n = style_.n_heads / style_.n_key_heads;
    nn::for_rows(compute, x.n_rows, [&](size_t i) {
      for (size_t h = 0; h < style_.n_heads; ++h) {
        const float* const of_key_head = both.row(i) + h / n * 2 * n;
        gain.row(i)[h] = of_key_head[h % n];
        decay.row(i)[h] = of_key_head[n + h % n];
      }
    });
  } else {
    nn::linear(compute, x, {{alpha_, nullptr, decay}, {beta_, nullptr, gain}});
  }
  nn::for_rows(compute, x.n_rows, [&](size_t i) {
    for (size_t h = 0; h < style_.n_heads; ++h) {
      decay.row(i)[h] += step_bias_[h];
      gain.row(i)[h] = nn::sigmoid(gain.row(i)[h]);
    }
  });
  nn::softplus(compute, decay);
  nn::for_rows(compute, x.n_rows, [&](size_t i) {
    for (size_t h = 0; h < style_.n_heads; ++h)
      decay.row(i)[h] = std::exp(rates_[h] * decay.row(i)[h]);
  });
}

void DeltaNet::forward(const Pass& pass, size_t index, tensor::Matrix x, tensor::Matrix out) const {
  const nn::Compute& compute = pass.compute;
  tensor::Arena& arena = compute.arena;
  const tensor::ArenaScope scope(arena);
  const tensor::Matrix raw = arena.matrix(x.n_rows, n_convolved());
  const tensor::Matrix qkv = arena.matrix(x.n_rows, n_convolved());
  const tensor::Matrix gate = arena.matrix(x.n_rows, n_values());
  const tensor::Matrix read = arena.matrix(x.n_rows, n_values());
  const tensor::Matrix decay = arena.matrix(x.n_rows, style_.n_heads);
  const tensor::Matrix gain = arena.matrix(x.n_rows, style_.n_heads);
  nn::linear(compute, x, {{qkv_, nullptr, raw}, {gate_, nullptr, gate}});
  gates(compute, x, decay, gain);
  nn::conv(compute, pass.states(index, 0), conv_, raw, qkv);
  nn::for_rows(compute, x.n_rows, [&](size_t i) {
    const size_t len = style_.key_len;
    for (size_t h = 0; h < 2 * style_.n_key_heads; ++h) {
      float* const head = qkv.row(i) + h * len;
      (h < style_.n_key_heads ? query_norm_ : key_norm_).apply(compute.kernels, head);
    }
  });
  const size_t first_float = nn::conv_state_floats(style_.taps, n_convolved());
  nn::linear_state(compute, pass.states(index, first_float), state_,
                   {.keys = {qkv, n_keys()},
                    .queries = qkv,
                    .values = {qkv, 2 * n_keys()},
                    .decays = decay,
                    .gains = gain,
                    .out = read});
  apply_to_heads(norm_, compute, read, style_.value_len, 0);
  nn::silu_multiply(compute, gate, read);
  nn::linear(compute, gate, {{out_, nullptr, out}});
}

}  // namespace billow::arch
