#include "arch/decoder/feed_forward.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "nn/for_rows.h"
#include "nn/linear.h"

namespace billow::arch {
namespace {

// x = the excess over (mean of the row + `cut` deviations), or 0.
void cut_off(const nn::Compute& compute, float cut, tensor::Matrix x) {
  nn::for_rows(compute, x.n_rows, [&](size_t row) {
    const std::span<float> values(x.row(row), x.n_cols);
    const auto n = static_cast<double>(values.size());
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
    double squares = 0.0;
    for (const float value : values) squares += (value - mean) * (value - mean);
    const auto min = static_cast<float>(mean + std::sqrt(squares / n) * cut);
    for (float& value : values) value = std::max(value - min, 0.0f);
  });
}

}  // namespace

void FeedForwardWeights::load(const WeightLoader& load, const std::string& prefix,
                              const std::string& suffix, size_t n_embd, size_t n_ff, bool gated) {
  const std::string gate_name = prefix + "ffn_gate" + suffix;
  const std::string up_name = prefix + "ffn_up" + suffix;
  const std::string down_name = prefix + "ffn_down" + suffix;
  const gguf::TensorInfo* info = load.file().find_tensor(up_name + ".weight");
  const bool is_joint =
      gated && info != nullptr && info->shape[1] == 2 * n_ff && !load.has(gate_name + ".weight");
  if (is_joint) {
    tensor::Tensor both;
    load.plain_matrix(up_name + ".weight", both, n_embd, 2 * n_ff);
    gate = rows_of(both, 0, n_ff);
    up = rows_of(both, n_ff, n_ff);
    load.pack(gate);
    load.pack(up);
  } else {
    if (gated) {
      load.matrix(gate_name + ".weight", gate, n_embd, n_ff);
      load.vector(gate_name + ".bias", gate_bias, n_ff, Presence::kOptional);
    }
    load.matrix(up_name + ".weight", up, n_embd, n_ff);
    load.vector(up_name + ".bias", up_bias, n_ff, Presence::kOptional);
  }
  load.matrix(down_name + ".weight", down, n_ff, n_embd);
  load.vector(down_name + ".bias", down_bias, n_embd, Presence::kOptional);
}

void feed_forward_block(const nn::Compute& compute, const FeedForwardWeights& weights,
                        const FeedForwardStyle& style, tensor::Matrix x, tensor::Matrix out) {
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix up = compute.arena.matrix(x.n_rows, weights.up.n_rows);
  tensor::Matrix inner = up;
  if (weights.gate) {
    inner = compute.arena.matrix(x.n_rows, weights.gate.n_rows);
    nn::linear(compute, x,
               {{weights.gate, weights.gate_bias, inner}, {weights.up, weights.up_bias, up}});
    if (style.cut) cut_off(compute, *style.cut, inner);
    nn::activate_gated(compute, style.activation, inner, up);
  } else {
    nn::linear(compute, x, {{weights.up, weights.up_bias, up}});
    nn::activate(compute, style.activation, style.xielu, up);
  }
  nn::linear(compute, inner, {{weights.down, weights.down_bias, out}});
}

}  // namespace billow::arch
