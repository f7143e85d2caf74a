// Recurrent states. Sums over keys use four chains: key n is in chain n % 4.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/math.inl.h"
#include "kernels/state_kernels.h"

namespace billow::kernels {
namespace {

constexpr size_t kPanelParts = kStatePanel / Isa::kLanes;
constexpr size_t kChains = 4;

struct PanelSums {
  F chains[kChains][kPanelParts];
  PanelSums() noexcept {
    for (auto& chain : chains)
      for (F& part : chain) part = Isa::zero();
  }
  F total(size_t part) const noexcept {
    return (chains[0][part] + chains[1][part]) + (chains[2][part] + chains[3][part]);
  }
};

template <bool kCorrects, bool kByKey>
void linear_state_rows(const LinearStateArgs& args) noexcept {
  for (size_t row = 0; row < args.n_rows; ++row) {
    const float* const keys = args.keys + row * args.key_stride;
    const float* const queries = args.queries + row * args.query_stride;
    const float* const values = args.values + row * args.value_stride;
    const float* const decays = args.decays + row * args.decay_stride;
    const F gain = Isa::set1(args.gains[row * args.gain_stride]);
    F added[kPanelParts];
    for (size_t v = 0; v < kPanelParts; ++v) added[v] = Isa::load(values + v * Isa::kLanes);
    if constexpr (kCorrects) {
      PanelSums held;
      for (size_t n = 0; n < args.n_keys; n += kChains) {
        for (size_t c = 0; c < kChains; ++c) {
          const F key = Isa::set1(kByKey ? keys[n + c] * decays[n + c] : keys[n + c]);
          const float* const state = args.state + (n + c) * kStatePanel;
          for (size_t v = 0; v < kPanelParts; ++v)
            held.chains[c][v] =
                Isa::fma(key, Isa::load(state + v * Isa::kLanes), held.chains[c][v]);
        }
      }
      for (size_t v = 0; v < kPanelParts; ++v)
        added[v] = added[v] - (kByKey ? held.total(v) : Isa::set1(*decays) * held.total(v));
    }
    for (size_t v = 0; v < kPanelParts; ++v) added[v] = gain * added[v];
    PanelSums read;
    for (size_t n = 0; n < args.n_keys; n += kChains) {
      for (size_t c = 0; c < kChains; ++c) {
        const F decay = Isa::set1(kByKey ? decays[n + c] : *decays);
        const F key = Isa::set1(keys[n + c]);
        const F query = Isa::set1(queries[n + c]);
        float* const state = args.state + (n + c) * kStatePanel;
        for (size_t v = 0; v < kPanelParts; ++v) {
          const F now = Isa::fma(key, added[v], decay * Isa::load(state + v * Isa::kLanes));
          Isa::store(state + v * Isa::kLanes, now);
          read.chains[c][v] = Isa::fma(query, now, read.chains[c][v]);
        }
      }
    }
    float* const out = args.out + row * args.out_stride;
    for (size_t v = 0; v < kPanelParts; ++v) Isa::store(out + v * Isa::kLanes, read.total(v));
  }
}

void linear_state(const LinearStateArgs& args) noexcept {
  if (args.corrects)
    args.decay_by_key ? linear_state_rows<true, true>(args) : linear_state_rows<true, false>(args);
  else
    args.decay_by_key ? linear_state_rows<false, true>(args)
                      : linear_state_rows<false, false>(args);
}

void replacing_state(const ReplacingStateArgs& args) noexcept {
  for (size_t row = 0; row < args.n_rows; ++row) {
    const size_t at = row * args.stride;
    PanelSums held;
    for (size_t n = 0; n < args.n_keys; n += kChains) {
      for (size_t c = 0; c < kChains; ++c) {
        const F removed = Isa::set1(args.removed[at + n + c]);
        const float* const state = args.state + (n + c) * kStatePanel;
        for (size_t v = 0; v < kPanelParts; ++v)
          held.chains[c][v] =
              Isa::fma(removed, Isa::load(state + v * Isa::kLanes), held.chains[c][v]);
      }
    }
    F values[kPanelParts];
    F removed_values[kPanelParts];
    for (size_t v = 0; v < kPanelParts; ++v) {
      values[v] = Isa::load(args.values + at + v * Isa::kLanes);
      removed_values[v] = Isa::zero() - held.total(v);
    }
    PanelSums read;
    for (size_t n = 0; n < args.n_keys; n += kChains) {
      for (size_t c = 0; c < kChains; ++c) {
        const F decay = Isa::set1(args.decays[at + n + c]);
        const F key = Isa::set1(args.keys[at + n + c]);
        const F written = Isa::set1(args.written[at + n + c]);
        const F query = Isa::set1(args.queries[at + n + c]);
        float* const state = args.state + (n + c) * kStatePanel;
        for (size_t v = 0; v < kPanelParts; ++v) {
          const F kept =
              Isa::fma(written, removed_values[v], decay * Isa::load(state + v * Isa::kLanes));
          const F now = Isa::fma(key, values[v], kept);
          Isa::store(state + v * Isa::kLanes, now);
          read.chains[c][v] = Isa::fma(query, now, read.chains[c][v]);
        }
      }
    }
    for (size_t v = 0; v < kPanelParts; ++v)
      Isa::store(args.out + at + v * Isa::kLanes, read.total(v));
  }
}

void scan(const ScanArgs& args) noexcept {
  float rates[kMaxScanStates * kStatePanel];  // by state, as vectors of channels
  for (size_t c = 0; c < kStatePanel; ++c)
    for (size_t n = 0; n < args.n_states; ++n)
      rates[n * kStatePanel + c] = args.rates[c * args.n_states + n];
  for (size_t row = 0; row < args.n_rows; ++row) {
    const float* const in = args.in + row * args.in_stride;
    const float* const out_weights = args.out_weights + row * args.out_weight_stride;
    for (size_t v = 0; v < kPanelParts; ++v) {
      const size_t at = v * Isa::kLanes;
      const F step = Isa::load(args.steps + row * args.step_stride + at);
      const F x = Isa::load(args.x + row * args.x_stride + at);
      const F added = step * x;
      F sum = Isa::load(args.skips + at) * x;
      for (size_t n = 0; n < args.n_states; ++n) {
        float* const state = args.state + n * kStatePanel + at;
        const F decay = exponential(step * Isa::load(rates + n * kStatePanel + at));
        const F now = Isa::fma(added, Isa::set1(in[n]), decay * Isa::load(state));
        Isa::store(state, now);
        sum = Isa::fma(Isa::set1(out_weights[n]), now, sum);
      }
      Isa::store(args.out + row * args.out_stride + at, sum);
    }
  }
}

void conv(const ConvArgs& args) noexcept {
  const size_t n_before = args.taps - 1;
  for_vectors(args.n_channels, [&](size_t at, size_t lanes) {
    float weights[kMaxConvTaps * Isa::kLanes] = {};  // by tap, as vectors of channels
    for (size_t c = 0; c < lanes; ++c)
      for (size_t t = 0; t < args.taps; ++t)
        weights[t * Isa::kLanes + c] = args.weights[(at + c) * args.taps + t];
    const F bias = args.bias != nullptr ? load_lanes(args.bias + at, lanes) : Isa::zero();
    const auto input = [&](size_t i) {  // i counts from the oldest row before row 0
      if (i >= n_before) return load_lanes(args.x + (i - n_before) * args.x_stride + at, lanes);
      if (args.before == nullptr) return Isa::zero();
      return load_lanes(args.before + i * args.before_stride + at, lanes);
    };
    for (size_t row = 0; row < args.n_rows; ++row) {
      F sum = bias;
      for (size_t t = 0; t < args.taps; ++t)
        sum = Isa::fma(Isa::load(weights + t * Isa::kLanes), input(row + t), sum);
      if (args.silu) sum = sum / (Isa::set1(1.0f) + exponential(Isa::zero() - sum));
      store_lanes(args.out + row * args.out_stride + at, sum, lanes);
    }
  });
}

// ln(1 + e^x) = max(x, 0) + ln(1 + t) with t = e^-|x|, and ln(1 + t) = 2 artanh(t / (2 + t)). The
// series of artanh is short, because its argument is at most 1/3.
void softplus(float* x, size_t n) noexcept {
  for_vectors(n, [&](size_t i, size_t lanes) {
    const F v = load_lanes(x + i, lanes);
    const F t = exponential(Isa::min(v, Isa::zero() - v));
    const F s = t / (Isa::set1(2.0f) + t);
    const F u = s * s;
    F p = Isa::set1(1.0f / 15);
    p = Isa::fma(p, u, Isa::set1(1.0f / 13));
    p = Isa::fma(p, u, Isa::set1(1.0f / 11));
    p = Isa::fma(p, u, Isa::set1(1.0f / 9));
    p = Isa::fma(p, u, Isa::set1(1.0f / 7));
    p = Isa::fma(p, u, Isa::set1(1.0f / 5));
    p = Isa::fma(p, u, Isa::set1(1.0f / 3));
    p = Isa::fma(p, u, Isa::set1(1.0f));
    store_lanes(x + i, Isa::fma(s + s, p, Isa::max(v, Isa::zero())), lanes);
  });
}

constexpr StateKernels make_state_kernels() noexcept {
  return {.linear_state = linear_state,
          .replacing_state = replacing_state,
          .scan = scan,
          .conv = conv,
          .softplus = softplus};
}

}  // namespace
}  // namespace billow::kernels
