#include "arch/decoder/mamba.h"

#include "nn/linear.h"
#include "nn/rows.h"

namespace billow::arch {

Mamba::Mamba(const MambaStyle& style, const WeightLoader& load, const std::string& prefix,
             size_t n_embd, const Norms& norms)
    : style_(style) {
  const size_t n = style.n_channels;
  tensor::Tensor in;
  load.plain_matrix(prefix + "ssm_in.weight", in, n_embd, 2 * n);
  in_ = rows_of(in, 0, n);
  gate_ = rows_of(in, n, n);
  conv_ = {.taps = style.taps, .silu = true};
  load.vector(prefix + "ssm_conv1d.weight", conv_.weights, style.taps * n);
  load.vector(prefix + "ssm_conv1d.bias", conv_.bias, n, Presence::kOptional);
  tensor::Tensor x;
  load.plain_matrix(prefix + "ssm_x.weight", x, n, style.n_steps + 2 * style.n_states);
  low_step_ = rows_of(x, 0, style.n_steps);
  b_ = rows_of(x, style.n_steps, style.n_states);
  c_ = rows_of(x, style.n_steps + style.n_states, style.n_states);
  for (tensor::Tensor* part : {&in_, &gate_, &low_step_, &b_, &c_}) load.pack(*part);
  load.matrix(prefix + "ssm_dt.weight", step_, style.n_steps, n);
  load.vector(prefix + "ssm_dt.bias", step_bias_, n);
  if (style.norms == MambaNorms::kWeighted) {
    step_norm_ = norms.load(load, prefix + "ssm_dt_norm", style.n_steps);
    b_norm_ = norms.load(load, prefix + "ssm_b_norm", style.n_states);
    c_norm_ = norms.load(load, prefix + "ssm_c_norm", style.n_states);
  } else if (style.norms == MambaNorms::kPlain) {
    step_norm_ = b_norm_ = c_norm_ = norms.plain_rms();
  }
  scan_ = {.n_channels = n, .n_states = style.n_states};
  load.vector(prefix + "ssm_a", scan_.rates, n * style.n_states);
  load.vector(prefix + "ssm_d", scan_.skips, n);
  load.matrix(prefix + "ssm_out.weight", out_, n, n_embd);
}

kv::LayerNeed Mamba::kv_need() const noexcept {
  return {.state_floats =
              nn::conv_state_floats(style_.taps, style_.n_channels) + scan_.state_floats()};
}

void Mamba::forward(const Pass& pass, size_t index, tensor::Matrix x, tensor::Matrix out) const {
  const nn::Compute& compute = pass.compute;
  tensor::Arena& arena = compute.arena;
  const tensor::ArenaScope scope(arena);
  const size_t n = style_.n_channels;
  const tensor::Matrix raw = arena.matrix(x.n_rows, n);
  const tensor::Matrix gate = arena.matrix(x.n_rows, n);
  const tensor::Matrix inner = arena.matrix(x.n_rows, n);
  const tensor::Matrix low_step = arena.matrix(x.n_rows, style_.n_steps);
  const tensor::Matrix b = arena.matrix(x.n_rows, style_.n_states);
  const tensor::Matrix c = arena.matrix(x.n_rows, style_.n_states);
  nn::linear(compute, x, {{in_, nullptr, raw}, {gate_, nullptr, gate}});
  nn::conv(compute, pass.states(index, 0), conv_, raw, inner);
  nn::linear(compute, inner, {{low_step_, nullptr, low_step}, {b_, nullptr, b}, {c_, nullptr, c}});
  if (step_norm_) {
    apply(step_norm_, compute, low_step, low_step);
    apply(b_norm_, compute, b, b);
    apply(c_norm_, compute, c, c);
  }
  const tensor::Matrix step = raw;  // reuses `raw`, which the convolution has read
  nn::linear(compute, low_step, {{step_, step_bias_, step}});
  nn::softplus(compute, step);
  const tensor::Matrix scanned = arena.matrix(x.n_rows, n);
  nn::scan(compute, pass.states(index, nn::conv_state_floats(style_.taps, n)), scan_,
           {.steps = step, .x = inner, .in = b, .out_weights = c, .out = scanned});
  nn::silu_multiply(compute, gate, scanned);
  nn::linear(compute, gate, {{out_, nullptr, out}});
}

}  // namespace billow::arch
