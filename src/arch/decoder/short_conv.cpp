#include "arch/decoder/short_conv.h"

#include "nn/linear.h"
#include "nn/rows.h"

namespace billow::arch {

ShortConv::ShortConv(const ShortConvStyle& style, const WeightLoader& load,
                     const std::string& prefix, size_t n_embd, const Norms&)
    : n_embd_(n_embd) {
  tensor::Tensor in;
  load.plain_matrix(prefix + "shortconv.in_proj.weight", in, n_embd, 3 * n_embd);
  in_gate_ = rows_of(in, 0, n_embd);
  out_gate_ = rows_of(in, n_embd, n_embd);
  in_ = rows_of(in, 2 * n_embd, n_embd);
  for (tensor::Tensor* part : {&in_gate_, &out_gate_, &in_}) load.pack(*part);
  conv_.taps = style.taps;
  load.vector(prefix + "shortconv.conv.weight", conv_.weights, style.taps * n_embd);
  load.matrix(prefix + "shortconv.out_proj.weight", out_, n_embd, n_embd);
}

kv::LayerNeed ShortConv::kv_need() const noexcept {
  return {.state_floats = nn::conv_state_floats(conv_.taps, n_embd_)};
}

void ShortConv::forward(const Pass& pass, size_t index, tensor::Matrix x,
                        tensor::Matrix out) const {
  const nn::Compute& compute = pass.compute;
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix in_gate = compute.arena.matrix(x.n_rows, n_embd_);
  const tensor::Matrix out_gate = compute.arena.matrix(x.n_rows, n_embd_);
  const tensor::Matrix inner = compute.arena.matrix(x.n_rows, n_embd_);
  nn::linear(compute, x,
             {{in_gate_, nullptr, in_gate}, {out_gate_, nullptr, out_gate}, {in_, nullptr, inner}});
  nn::multiply(compute, inner, in_gate);
  nn::conv(compute, pass.states(index, 0), conv_, inner, in_gate);
  nn::multiply(compute, out_gate, in_gate);
  nn::linear(compute, out_gate, {{out_, nullptr, out}});
}

}  // namespace billow::arch
