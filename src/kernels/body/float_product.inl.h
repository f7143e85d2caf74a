// Products of float formats, in 32-bit floats: for each output, k in order, one multiply-add each.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/strips.inl.h"
#include "kernels/kernel_table.h"
#include "quant/types/bf16.h"
#include "quant/types/f16.h"
#include "quant/types/f32.h"

namespace billow::kernels {
namespace {

// The values of k and k + 1 of a vector's outputs.
struct Pair {
  F even;
  F odd;
};

inline Pair load_pair(const quant::F32*, const uint8_t* pair, size_t half) noexcept {
  const auto* p = reinterpret_cast<const float*>(pair) + half * Isa::kLanes;
  return {Isa::load(p), Isa::load(p + quant::kStripRows)};
}
inline Pair load_pair(const quant::F16*, const uint8_t* pair, size_t half) noexcept {
  const Isa::Bytes v = Isa::load_bytes(pair + half * kLaneBytes);
  return {Isa::low_f16(v), Isa::high_f16(v)};
}
inline Pair load_pair(const quant::BF16*, const uint8_t* pair, size_t half) noexcept {
  const Isa::Bytes v = Isa::load_bytes(pair + half * kLaneBytes);
  return {Isa::low_bf16(v), Isa::high_bf16(v)};
}

// V vectors of weights directly from their strips, a block of k at a time.
template <class Format, size_t V>
struct FloatStrips {
  static constexpr size_t kPairBytes = quant::kStripRows * 2 * Format::kGroupBytes;
  const uint8_t* block[V];
  size_t half[V];
  size_t prefetch_bytes;

  FloatStrips(const GemmArgs& args, size_t vector, size_t first_block) noexcept
      : prefetch_bytes(args.prefetch_bytes) {
    for (size_t v = 0; v < V; ++v) {
      block[v] = strip_of<Format::kPacking>(args, vector + v) +
                 first_block * Format::kPacking.code_bytes();
      half[v] = (vector + v) % kHalves;
    }
  }
  void prefetch() const noexcept {
    for (size_t v = 0; v < V && prefetch_bytes > 0; ++v) {
      if (half[v] != 0) continue;
      for (size_t at = 0; at < Format::kPacking.code_bytes(); at += 64) {
        __builtin_prefetch(block[v] + at + prefetch_bytes);
      }
    }
  }
  Pair pair(size_t i, size_t v) const noexcept {
    return load_pair(static_cast<const Format*>(nullptr), block[v] + i * kPairBytes, half[v]);
  }
  void next() noexcept {
    for (size_t v = 0; v < V; ++v) block[v] += Format::kPacking.code_bytes();
  }
};

// The same weights as floats, copied next to each other once for many rows.
template <size_t V>
struct FloatPanel {
  static constexpr size_t kBlockBytes = quant::kPackedBlock * V * kLaneBytes;
  const uint8_t* block;

  void prefetch() const noexcept {}
  Pair pair(size_t i, size_t v) const noexcept {
    const auto* p = reinterpret_cast<const float*>(block) + (2 * i * V + v) * Isa::kLanes;
    return {Isa::load(p), Isa::load(p + V * Isa::kLanes)};
  }
  void next() noexcept { block += kBlockBytes; }

  template <class Strips>
  static void fill(Strips strips, size_t n_blocks, uint8_t* out) noexcept {
    for (size_t b = 0; b < n_blocks; ++b, strips.next(), out += kBlockBytes) {
      strips.prefetch();
      for (size_t i = 0; i < quant::kPackedBlock / 2; ++i) {
        for (size_t v = 0; v < V; ++v) {
          const Pair pair = strips.pair(i, v);
          auto* p = reinterpret_cast<float*>(out) + (2 * i * V + v) * Isa::kLanes;
          Isa::store(p, pair.even);
          Isa::store(p + V * Isa::kLanes, pair.odd);
        }
      }
    }
  }
};

// M rows of activations as floats, 32 of k at a time.
template <size_t M>
struct FloatRows {
  const std::byte* at;
  const float* values(size_t j) const noexcept {
    return reinterpret_cast<const float*>(at) + j * kActivationGroup;
  }
  void next() noexcept { at += M * kActivationGroup * sizeof(float); }
};

template <class Format>
struct FloatProduct {
  static constexpr quant::Packing kPacking = Format::kPacking;
  static constexpr size_t kGroupRows = Isa::kFloatGroupRows;
  static constexpr size_t kPanelVectors = Isa::kPanelVectors;
  static constexpr size_t kMaxPasses = 0;
  static constexpr size_t kSlabBlocks = 8;
  static constexpr size_t kBlockRowBytes = kActivationGroup * sizeof(float);
  template <size_t V>
  using Strips = FloatStrips<Format, V>;
  template <size_t V>
  using Panel = FloatPanel<V>;
  template <size_t M>
  using Rows = FloatRows<M>;
  using PanelProduct = FloatProduct<quant::F32>;
  template <size_t V>
  static Panel<V> panel(const uint8_t* at, int) noexcept {
    return {at};
  }
  static constexpr int kLog2 = 0;

  template <class Weights, size_t V, size_t M>
  static void add(Weights weights, FloatRows<M> rows, size_t n_blocks, F (&acc)[V][M]) noexcept {
    for (size_t b = 0; b < n_blocks; ++b, weights.next()) {
      weights.prefetch();
      for (size_t input = 0; input < kInputsOfBlock; ++input, rows.next()) {
#pragma GCC unroll 2
        for (size_t i = 0; i < kActivationGroup / 2; ++i) {
          Pair w[V];
          for (size_t v = 0; v < V; ++v) w[v] = weights.pair(input * kActivationGroup / 2 + i, v);
          for (size_t j = 0; j < M; ++j) {
            const F even = Isa::set1(rows.values(j)[2 * i]);
            for (size_t v = 0; v < V; ++v) acc[v][j] = Isa::fma(w[v].even, even, acc[v][j]);
          }
          for (size_t j = 0; j < M; ++j) {
            const F odd = Isa::set1(rows.values(j)[2 * i + 1]);
            for (size_t v = 0; v < V; ++v) acc[v][j] = Isa::fma(w[v].odd, odd, acc[v][j]);
          }
        }
      }
    }
  }
  static F factor(const GemmArgs&, size_t) noexcept { return Isa::set1(1.0f); }
};

inline void write_floats(const float* const* rows, size_t n_rows, size_t k,
                         std::byte* out) noexcept {
  auto* to = reinterpret_cast<float*>(out);
  for (size_t i = 0; i < padded(k); i += kActivationGroup) {
    for (size_t row = 0; row < n_rows; ++row, to += kActivationGroup) {
      const float* from = rows[row] + i;
      for (size_t j = 0; j < kActivationGroup; ++j) to[j] = i + j < k ? from[j] : 0.0f;
    }
  }
}

// Packs a strip, 64 bytes of each row at a time.
template <class Format>
void pack_floats(const PackArgs& args) noexcept {
  constexpr size_t kPieceBytes = 64;
  const size_t row_bytes = args.k * Format::kGroupBytes;
  auto* out = reinterpret_cast<uint8_t*>(args.out);
  for (size_t at = 0; at < padded(args.k) * Format::kGroupBytes; at += kPieceBytes) {
    const auto* rows = reinterpret_cast<const uint8_t*>(args.weight) + at;
    size_t stride = args.row_bytes;
    alignas(64) uint8_t edge[quant::kStripRows * kPieceBytes];
    if (at + kPieceBytes > row_bytes || args.n_rows < quant::kStripRows) {
      __builtin_memset(edge, 0, sizeof edge);
      const size_t left = at < row_bytes ? row_bytes - at : 0;
      const size_t n = left < kPieceBytes ? left : kPieceBytes;
      for (size_t r = 0; r < args.n_rows; ++r)
        __builtin_memcpy(edge + r * kPieceBytes, rows + r * stride, n);
      rows = edge;
      stride = kPieceBytes;
    }
    Isa::transpose_words(rows, stride, out + at * quant::kStripRows);
  }
}

}  // namespace
}  // namespace billow::kernels
