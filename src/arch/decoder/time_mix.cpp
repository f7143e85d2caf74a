#include "arch/decoder/time_mix.h"

#include <algorithm>
#include <cmath>

#include "nn/activation.h"
#include "nn/for_rows.h"
#include "nn/linear.h"
#include "nn/rows.h"

namespace billow::arch {
namespace {

// Rows of lerp_.
enum Mix : size_t { kQuery, kDecay, kKey, kValue, kRate, kGate, kMixes };

constexpr float kHeadEpsilon = 64e-5f;
constexpr float kLengthEpsilon = 1e-24f;  // of a sum of squares

// out = x + lerp (before - x)
void mix(const nn::Compute& compute, const float* lerp, tensor::Matrix x, tensor::Matrix before,
         tensor::Matrix out) {
  nn::for_rows(compute, x.n_rows, [&](size_t i) {
    const float* const now = x.row(i);
    const float* const last = before.row(i);
    for (size_t c = 0; c < x.n_cols; ++c) out.row(i)[c] = now[c] + lerp[c] * (last[c] - now[c]);
  });
}

template <class Function>
void each_value(const nn::Compute& compute, tensor::Matrix x, Function function) {
  nn::for_rows(compute, x.n_rows, [&](size_t i) {
    for (size_t c = 0; c < x.n_cols; ++c) x.row(i)[c] = function(x.row(i)[c]);
  });
}

}  // namespace

TokenShift::TokenShift(size_t n_embd) : n_embd_(n_embd), weights_(kTaps * n_embd) {
  for (size_t c = 0; c < n_embd; ++c) weights_[kTaps * c] = 1.0f;
}

void TokenShift::forward(const nn::Compute& compute, const nn::StatePart& part, tensor::Matrix x,
                         tensor::Matrix out) const {
  nn::conv(compute, part, {.taps = kTaps, .weights = weights_.data()}, x, out);
}

TimeMix::TimeMix(const TimeMixStyle& style, const WeightLoader& load, const std::string& prefix,
                 size_t n_embd, const Norms&)
    : style_(style), n_embd_(n_embd), shift_(n_embd) {
  const std::string mix = prefix + "time_mix_";
  const auto load_vector = [&](const char* name, const float*& out) {
    load.vector(mix + name + ".weight", out, n_embd);
  };
  const auto load_low_rank = [&](const std::string& name, size_t rank, bool biased, LowRank& out) {
    load.matrix(mix + name + "1.weight", out.down, n_embd, rank);
    load.matrix(mix + name + "2.weight", out.up, rank, n_embd);
    if (biased) load.vector(mix + name + "0.weight", out.bias, n_embd);
  };
  const size_t n_mixes = style.gate_rank != 0 ? kMixes : kMixes - 1;
  load.vector(mix + "lerp_fused.weight", lerp_, n_mixes * n_embd);
  load.matrix(mix + "receptance.weight", receptance_, n_embd, n_embd);
  load.matrix(mix + "key.weight", key_, n_embd, n_embd);
  load.matrix(mix + "value.weight", value_, n_embd, n_embd);
  load_low_rank("w", style.decay_rank, true, decay_);
  load_low_rank("a", style.rate_rank, true, rate_);
  if (!style.first) load_low_rank("v", style.value_rank, true, value_share_);
  if (style.gate_rank != 0) load_low_rank("g", style.gate_rank, false, gate_);
  load_vector("k_k", removed_scale_);
  load_vector("k_a", rate_scale_);
  load_vector("r_k", bonus_);
  if (style.head_norm) {
    head_norm_ = {.kind = NormKind::kMean, .eps = kHeadEpsilon};
    load_vector("ln", head_norm_.weight);
    load.vector(mix + "ln.bias", head_norm_.bias, n_embd);
  }
  load.matrix(mix + "output.weight", out_, n_embd, n_embd);
  removed_norm_ = {style.head_len, kLengthEpsilon};
  state_ = {.n_heads = n_embd / style.head_len, .n_keys = style.head_len};
}

kv::LayerNeed TimeMix::kv_need() const noexcept {
  return {.state_floats = shift_.state_floats() + state_.state_floats()};
}

void TimeMix::project(const Pass& pass, tensor::Matrix x, tensor::Matrix before,
                      const Projected& out) const {
  const nn::Compute& compute = pass.compute;
  tensor::Arena& arena = compute.arena;
  const tensor::ArenaScope scope(arena);
  const tensor::Matrix mixed = arena.matrix(x.n_rows, n_embd_);
  const auto mix_for = [&](Mix which) {
    mix(compute, lerp_ + which * n_embd_, x, before, mixed);
    return mixed;
  };
  const auto low_rank = [&](const LowRank& weights, auto activation, tensor::Matrix to) {
    const tensor::ArenaScope of_inner(arena);
    const tensor::Matrix inner = arena.matrix(x.n_rows, weights.down.n_rows);
    nn::linear(compute, mixed, {{weights.down, nullptr, inner}});
    each_value(compute, inner, activation);
    nn::linear(compute, inner, {{weights.up, weights.bias, to}});
  };
  const auto as_it_is = [](float value) { return value; };
  nn::linear(compute, mix_for(kQuery), {{receptance_, nullptr, out.queries}});
  nn::linear(compute, mix_for(kKey), {{key_, nullptr, out.keys}});
  nn::linear(compute, mix_for(kValue), {{value_, nullptr, out.values}});
  if (style_.first) {
    if (compute.sizing == nullptr)
      std::copy_n(out.values.data, x.n_rows * n_embd_, pass.first_values.data);
  } else {
    const tensor::Matrix share = arena.matrix(x.n_rows, n_embd_);
    low_rank(value_share_, as_it_is, share);
    nn::for_rows(compute, x.n_rows, [&](size_t i) {
      const float* const first = pass.first_values.row(i);
      float* const value = out.values.row(i);
      for (size_t c = 0; c < n_embd_; ++c)
        value[c] += (first[c] - value[c]) * nn::sigmoid(share.row(i)[c]);
    });
  }
  mix_for(kDecay);
  low_rank(decay_, [](float value) { return std::tanh(value); }, out.decays);
  const float max = -std::exp(-0.5f);
  each_value(compute, out.decays, [&](float value) { return std::exp(max * nn::sigmoid(value)); });
  mix_for(kRate);
  low_rank(rate_, as_it_is, out.rates);
  each_value(compute, out.rates, nn::sigmoid);
  if (style_.gate_rank == 0) return;
  mix_for(kGate);
  low_rank(gate_, nn::sigmoid, out.gates);
}

void TimeMix::replace_keys(const nn::Compute& compute, const Projected& rows,
                           tensor::Matrix removed, tensor::Matrix written) const {
  const size_t len = style_.head_len;
  nn::for_rows(compute, rows.keys.n_rows, [&](size_t i) {
    float* const key = rows.keys.row(i);
    const float* const rate = rows.rates.row(i);
    float* const gone = removed.row(i);
    for (size_t c = 0; c < n_embd_; ++c) gone[c] = key[c] * removed_scale_[c];
    for (size_t h = 0; h < n_embd_; h += len) {
      removed_norm_.apply(compute.kernels, gone + h);
    }
    for (size_t c = 0; c < n_embd_; ++c) {
      written.row(i)[c] = gone[c] * rate[c];
      key[c] += key[c] * rate_scale_[c] * (rate[c] - 1.0f);
    }
  });
}

void TimeMix::forward(const Pass& pass, size_t index, tensor::Matrix x, tensor::Matrix out) const {
  const nn::Compute& compute = pass.compute;
  tensor::Arena& arena = compute.arena;
  const tensor::ArenaScope scope(arena);
  const auto rows = [&] { return arena.matrix(x.n_rows, n_embd_); };
  const tensor::Matrix before = rows();
  const tensor::Matrix removed = rows();
  const tensor::Matrix written = rows();
  const tensor::Matrix read = rows();
  const Projected in = {rows(), rows(), rows(), rows(), rows(), rows()};
  shift_.forward(compute, pass.states(index, 0), x, before);
  project(pass, x, before, in);
  replace_keys(compute, in, removed, written);
  nn::replacing_state(compute, pass.states(index, shift_.state_floats()), state_,
                      {.keys = in.keys,
                       .queries = in.queries,
                       .values = in.values,
                       .decays = in.decays,
                       .removed = removed,
                       .written = written,
                       .out = read});
  const size_t len = style_.head_len;
  if (head_norm_) apply_to_heads(head_norm_, compute, read, len, len);
  nn::for_rows(compute, x.n_rows, [&](size_t i) {
    const float* const query = in.queries.row(i);
    const float* const key = in.keys.row(i);
    for (size_t h = 0; h < n_embd_; h += len) {
      float sum = 0.0f;
      for (size_t c = h; c < h + len; ++c) sum += query[c] * key[c] * bonus_[c];
      for (size_t c = h; c < h + len; ++c) read.row(i)[c] += sum * in.values.row(i)[c];
    }
  });
  if (style_.gate_rank != 0) nn::multiply(compute, read, in.gates);
  nn::linear(compute, read, {{out_, nullptr, out}});
}

ChannelMix::ChannelMix(const ChannelMixStyle& style, const WeightLoader& load,
                       const std::string& prefix, size_t n_embd, size_t first_float)
    : style_(style), first_float_(first_float), shift_(n_embd) {
  const std::string mix = prefix + "channel_mix_";
  load.vector(mix + "lerp_k.weight", lerp_, n_embd);
  load.matrix(mix + "key.weight", key_, n_embd, style.n_ff);
  load.matrix(mix + "value.weight", value_, style.n_ff, n_embd);
}

void ChannelMix::forward(const Pass& pass, size_t index, tensor::Matrix x,
                         tensor::Matrix out) const {
  const nn::Compute& compute = pass.compute;
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix mixed = compute.arena.matrix(x.n_rows, x.n_cols);
  const tensor::Matrix inner = compute.arena.matrix(x.n_rows, style_.n_ff);
  shift_.forward(compute, pass.states(index, first_float_), x, mixed);
  mix(compute, lerp_, x, mixed, mixed);
  nn::linear(compute, mixed, {{key_, nullptr, inner}});
  nn::activate(compute, nn::Activation::kReluSquared, {}, inner);
  nn::linear(compute, inner, {{value_, nullptr, out}});
}

}  // namespace billow::arch
