// Products of F16 weights in half precision with Half, whose multiply-add works on both halves of
// each lane: a lane's even and odd k have separate sums. After each 128 of k, counted from 0, these
// sums are added to 32-bit sums, so that little precision is lost. Each 128 of k of activations are
// scaled by a power of two, so that their max is from 4 to 8. Then sums stay below the largest half
// unless weights exceed 100.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/pair_weights.inl.h"
#include "kernels/body/products.inl.h"
#include "kernels/body/vocabulary.inl.h"
#include "kernels/isa/isa.h"
#include "kernels/kernel_table.h"

namespace billow::kernels {
namespace {

constexpr size_t kHalfStretch = 2 * quant::kPackedBlock;  // of k

// For each 32 of k: f16 [row][32], float scales [row]. The scale is that of the 128 of k that
// contain these 32.
constexpr size_t kHalfRowBytes = kActivationGroup * 2 + sizeof(float);

struct HalfScale {
  float scale;    // of the stored values; NaN if a value is not finite
  float inverse;  // 0 if the scale is NaN
};

// Returns the scale of n values, n a multiple of 32.
inline HalfScale half_scale(const float* x, size_t n) noexcept {
  F extreme = Isa::zero();
  // NaN if any value is not finite, because max may lose NaN.
  F probe = Isa::zero();
  for (size_t i = 0; i < n; i += Isa::kLanes) {
    const F v = Isa::load(x + i);
    extreme = Isa::max(extreme, Isa::max(v, Isa::zero() - v));
    probe = Isa::fma(v, Isa::zero(), probe);
  }
  if (!(Isa::sum(probe) == 0.0f)) return {__builtin_nanf(""), 0.0f};
  const uint32_t bits = __builtin_bit_cast(uint32_t, Isa::largest(extreme)) >> 23;  // exponent
  const uint32_t exponent = bits < 27 ? 27 : bits;  // 2^-100 and below count as 2^-100
  return {__builtin_bit_cast(float, (exponent - 2) << 23),
          __builtin_bit_cast(float, (256 - exponent) << 23)};
}

inline void write_halves(const float* const* rows, size_t n_rows, size_t k,
                         std::byte* out) noexcept {
  for (size_t begin = 0; begin < padded(k); begin += kHalfStretch) {
    const size_t n = padded(k) - begin < kHalfStretch ? padded(k) - begin : kHalfStretch;
    for (size_t row = 0; row < n_rows; ++row) {
      const float* values = rows[row] + begin;
      float last[kHalfStretch];
      if (begin + n > k) {
        for (size_t i = 0; i < n; ++i) last[i] = begin + i < k ? values[i] : 0.0f;
        values = last;
      }
      const HalfScale scale = half_scale(values, n);
      const F inverse = Isa::set1(scale.inverse);
      for (size_t i = 0; i < n; i += kActivationGroup) {
        std::byte* block = out + (begin + i) / kActivationGroup * n_rows * kHalfRowBytes;
        auto* halves = reinterpret_cast<uint16_t*>(block) + row * kActivationGroup;
        for (size_t j = 0; j < kActivationGroup; j += Isa::kLanes) {
          const F v = scale.inverse == 0.0f ? Isa::zero() : Isa::load(values + i + j) * inverse;
          Isa::store_f16(halves + j, v);
        }
        reinterpret_cast<float*>(block + n_rows * kActivationGroup * 2)[row] = scale.scale;
      }
    }
  }
}

// M rows of activations, 32 of k at a time.
template <size_t M>
struct HalfRows {
  const std::byte* at;
  const int8_t* pair(size_t i, size_t j) const noexcept {
    return reinterpret_cast<const int8_t*>(at) + j * kActivationGroup * 2 + 4 * i;
  }
  float scale(size_t j) const noexcept {
    return reinterpret_cast<const float*>(at + M * kActivationGroup * 2)[j];
  }
  void next() noexcept { at += M * kHalfRowBytes; }
};

struct HalfProduct {
  static constexpr quant::Packing kPacking = quant::F16::kPacking;
  static constexpr size_t kGroupRows = Isa::kFloatGroupRows;
  static constexpr size_t kPanelVectors = Isa::kPanelVectors;
  static constexpr size_t kMaxPasses = 0;
  static constexpr size_t kSlabBlocks = 4;  // whole stretches
  static constexpr size_t kBlockRowBytes = kHalfRowBytes;
  template <size_t V>
  using Strips = PairStrips<V>;
  template <size_t V>
  using Panel = PairPanel<V>;
  template <size_t M>
  using Rows = HalfRows<M>;
  using PanelProduct = HalfProduct;
  template <size_t V>
  static Panel<V> panel(const uint8_t* at, int) noexcept {
    return {at};
  }
  static constexpr int kLog2 = 0;

  // sum[v][j] += the pairs of a block.
  template <class Weights, size_t V, size_t M>
  static void add_block(const Weights& weights, HalfRows<M>& rows,
                        Isa::Bytes (&sum)[V][M]) noexcept {
    for (size_t input = 0; input < kInputsOfBlock; ++input, rows.next()) {
      for (size_t i = 0; i < kActivationGroup / 2; ++i) {
        Isa::Bytes w[V];
        for (size_t v = 0; v < V; ++v) w[v] = weights.pair(input * kActivationGroup / 2 + i, v);
        for (size_t j = 0; j < M; ++j) {
          const Isa::Bytes x = Isa::broadcast4(rows.pair(i, j));
          for (size_t v = 0; v < V; ++v) sum[v][j] = Half::fma(w[v], x, sum[v][j]);
        }
      }
    }
  }

  template <class Weights, size_t V, size_t M>
  static void add(Weights weights, HalfRows<M> rows, size_t n_blocks, F (&acc)[V][M]) noexcept {
    constexpr size_t kBlocks = kHalfStretch / quant::kPackedBlock;
    for (size_t begin = 0; begin < n_blocks; begin += kBlocks) {
      const size_t end = begin + kBlocks < n_blocks ? begin + kBlocks : n_blocks;
      Isa::Bytes sum[V][M] = {};
      const HalfRows<M> first = rows;
      for (size_t b = begin; b < end; ++b, weights.next()) {
        weights.prefetch();
        add_block<Weights, V, M>(weights, rows, sum);
      }
      for (size_t j = 0; j < M; ++j) {
        const F scale = Isa::set1(first.scale(j));
        for (size_t v = 0; v < V; ++v) {
          acc[v][j] = Isa::fma(Isa::low_f16(sum[v][j]), scale, acc[v][j]);
          acc[v][j] = Isa::fma(Isa::high_f16(sum[v][j]), scale, acc[v][j]);
        }
      }
    }
  }
  static F factor(const GemmArgs&, size_t) noexcept { return Isa::set1(1.0f); }
};

constexpr ActivationLayout kHalfInput = {InputKind::kF16, kFewRows, HalfProduct::kGroupRows,
                                         kHalfRowBytes, write_halves};

constexpr Overlay half_overlay() noexcept {
  Overlay overlay{};
  overlay.types[static_cast<size_t>(quant::Type::kF16)] = {&kHalfInput, nullptr, gemm<HalfProduct>};
  return overlay;
}

}  // namespace
}  // namespace billow::kernels
