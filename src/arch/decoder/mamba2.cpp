#include "arch/decoder/mamba2.h"

#include <cmath>

#include "nn/for_rows.h"
#include "nn/linear.h"
#include "nn/rows.h"

namespace billow::arch {

Mamba2::Mamba2(const Mamba2Style& style, const WeightLoader& load, const std::string& prefix,
               size_t n_embd, const Norms& norms)
    : style_(style) {
  const size_t n = style.n_channels;
  tensor::Tensor in;
  load.plain_matrix(prefix + "ssm_in.weight", in, n_embd, n + n_convolved() + style.n_heads);
  gate_ = rows_of(in, 0, n);
  in_ = rows_of(in, n, n_convolved());
  step_ = rows_of(in, n + n_convolved(), style.n_heads);
  for (tensor::Tensor* part : {&gate_, &in_, &step_}) load.pack(*part);
  conv_ = {.taps = style.taps, .silu = true};
  load.vector(prefix + "ssm_conv1d.weight", conv_.weights, style.taps * n_convolved());
  load.vector(prefix + "ssm_conv1d.bias", conv_.bias, n_convolved(), Presence::kOptional);
  load.vector(prefix + "ssm_dt.bias", step_bias_, style.n_heads);
  load.vector(prefix + "ssm_a", rates_, style.n_heads);
  load.vector(prefix + "ssm_d", skips_, style.n_heads);
  if (style.has_norm) norm_ = norms.load(load, prefix + "ssm_norm", n);
  load.matrix(prefix + "ssm_out.weight", out_, n, n_embd);
  state_ = {.n_heads = style.n_heads,
            .n_keys = style.n_states,
            .n_values = head_len(),
            .n_key_heads = style.n_groups};
}

kv::LayerNeed Mamba2::kv_need() const noexcept {
  return {.state_floats =
              nn::conv_state_floats(style_.taps, n_convolved()) + state_.state_floats()};
}

void Mamba2::forward(const Pass& pass, size_t index, tensor::Matrix x, tensor::Matrix out) const {
  const nn::Compute& compute = pass.compute;
  tensor::Arena& arena = compute.arena;
  const tensor::ArenaScope scope(arena);
  const size_t n = style_.n_channels;
  const tensor::Matrix gate = arena.matrix(x.n_rows, n);
  const tensor::Matrix raw = arena.matrix(x.n_rows, n_convolved());
  const tensor::Matrix inner = arena.matrix(x.n_rows, n_convolved());
  const tensor::Matrix step = arena.matrix(x.n_rows, style_.n_heads);
  const tensor::Matrix decay = arena.matrix(x.n_rows, style_.n_heads);
  const tensor::Matrix read = arena.matrix(x.n_rows, n);
  nn::linear(compute, x, {{gate_, nullptr, gate}, {in_, nullptr, raw}, {step_, step_bias_, step}});
  nn::conv(compute, pass.states(index, 0), conv_, raw, inner);
  nn::softplus(compute, step);
  nn::for_rows(compute, x.n_rows, [&](size_t i) {
    for (size_t h = 0; h < style_.n_heads; ++h)
      decay.row(i)[h] = std::exp(step.row(i)[h] * rates_[h]);
  });
  const size_t first_float = nn::conv_state_floats(style_.taps, n_convolved());
  nn::linear_state(compute, pass.states(index, first_float), state_,
                   {.keys = {inner, n},
                    .queries = {inner, n + style_.n_groups * style_.n_states},
                    .values = inner,
                    .decays = decay,
                    .gains = step,
                    .out = read});
  nn::for_rows(compute, x.n_rows, [&](size_t i) {
    for (size_t k = 0; k < n; ++k) read.row(i)[k] += skips_[k / head_len()] * inner.row(i)[k];
  });
  nn::silu_multiply(compute, gate, read);
  if (norm_) {
    const size_t group_len = n / style_.n_groups;
    apply_to_heads(norm_, compute, gate, group_len, group_len);
  }
  nn::linear(compute, gate, {{out_, nullptr, out}});
}

}  // namespace billow::arch
