#include "arch/decoder/kimi_delta.h"

#include <cmath>

#include "nn/activation.h"
#include "nn/for_rows.h"
#include "nn/linear.h"
#include "nn/rows.h"

namespace billow::arch {

KimiDelta::KimiDelta(const KimiDeltaStyle& style, const WeightLoader& load,
                     const std::string& prefix, size_t n_embd, const Norms& norms)
    : style_(style) {
  const char* const names[] = {"q", "k", "v"};
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Input& input = inputs_[i];
    load.matrix(prefix + "attn_" + names[i] + ".weight", input.proj, n_embd, n_inner());
    input.conv = {.taps = style.taps, .silu = true};
    load.vector(prefix + "ssm_conv1d_" + names[i] + ".weight", input.conv.weights,
                style.taps * n_inner());
  }
  const auto load_low_rank = [&](const std::string& name, LowRank& out) {
    load.matrix(prefix + name + "_a.weight", out.down, n_embd, style.head_len);
    load.matrix(prefix + name + "_b.weight", out.up, style.head_len, n_inner());
  };
  load_low_rank("ssm_f", decay_);
  load_low_rank("ssm_g", gate_);
  load.matrix(prefix + "ssm_beta.weight", beta_, n_embd, style.n_heads);
  load.vector(prefix + "ssm_dt.bias", step_bias_, n_inner());
  load.vector(prefix + "ssm_a", rates_, style.n_heads);
  norm_ = norms.load(load, prefix + "ssm_norm", style.head_len);
  load.matrix(prefix + "attn_output.weight", out_, n_inner(), n_embd);
  query_norm_ = {style.head_len, norm_.eps, 1.0f / std::sqrt(static_cast<float>(style.head_len))};
  key_norm_ = {style.head_len, norm_.eps};
  state_ = {.n_heads = style.n_heads,
            .n_keys = style.head_len,
            .n_values = style.head_len,
            .n_key_heads = style.n_heads,
            .corrects = true,
            .decay_by_key = true};
}

kv::LayerNeed KimiDelta::kv_need() const noexcept {
  return {.state_floats = inputs_.size() * conv_floats() + state_.state_floats()};
}

void KimiDelta::multiply(const nn::Compute& compute, const LowRank& weights, const float* bias,
                         tensor::Matrix x, tensor::Matrix out) const {
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix inner = compute.arena.matrix(x.n_rows, style_.head_len);
  nn::linear(compute, x, {{weights.down, nullptr, inner}});
  nn::linear(compute, inner, {{weights.up, bias, out}});
}

void KimiDelta::forward(const Pass& pass, size_t index, tensor::Matrix x,
                        tensor::Matrix out) const {
  const nn::Compute& compute = pass.compute;
  tensor::Arena& arena = compute.arena;
  const tensor::ArenaScope scope(arena);
  const auto inner = [&] { return arena.matrix(x.n_rows, n_inner()); };
  const std::array<tensor::Matrix, 3> convolved = {inner(), inner(), inner()};
  const tensor::Matrix decay = inner();
  const tensor::Matrix gate = inner();
  const tensor::Matrix gain = arena.matrix(x.n_rows, style_.n_heads);
  const tensor::Matrix read = inner();
  {
    const tensor::ArenaScope of_inputs(arena);
    const std::array<tensor::Matrix, 3> raw = {inner(), inner(), inner()};
    nn::linear(compute, x,
               {{inputs_[0].proj, nullptr, raw[0]},
                {inputs_[1].proj, nullptr, raw[1]},
                {inputs_[2].proj, nullptr, raw[2]},
                {beta_, nullptr, gain}});
    for (size_t i = 0; i < inputs_.size(); ++i) {
      nn::conv(compute, pass.states(index, i * conv_floats()), inputs_[i].conv, raw[i],
               convolved[i]);
    }
  }
  multiply(compute, decay_, step_bias_, x, decay);
  multiply(compute, gate_, nullptr, x, gate);
  nn::softplus(compute, decay);
  nn::for_rows(compute, x.n_rows, [&](size_t i) {
    const size_t len = style_.head_len;
    for (size_t h = 0; h < style_.n_heads; ++h) {
      query_norm_.apply(compute.kernels, convolved[0].row(i) + h * len);
      key_norm_.apply(compute.kernels, convolved[1].row(i) + h * len);
      gain.row(i)[h] = nn::sigmoid(gain.row(i)[h]);
      for (size_t k = h * len; k < (h + 1) * len; ++k)
        decay.row(i)[k] = std::exp(rates_[h] * decay.row(i)[k]);
    }
  });
  nn::linear_state(compute, pass.states(index, inputs_.size() * conv_floats()), state_,
                   {.keys = convolved[1],
                    .queries = convolved[0],
                    .values = convolved[2],
                    .decays = decay,
                    .gains = gain,
                    .out = read});
  apply_to_heads(norm_, compute, read, style_.head_len, 0);
  nn::sigmoid_multiply(compute, read, gate);
  nn::linear(compute, read, {{out_, nullptr, out}});
}

}  // namespace billow::arch
