// Products of BF16 weights and activations with Bf16Dot, which adds the products of a pair of k to
// 32-bit sums: for each output, pairs of k in order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/bf16_form.inl.h"
#include "kernels/body/pair_weights.inl.h"
#include "kernels/body/vocabulary.inl.h"
#include "kernels/kernel_table.h"

namespace billow::kernels {
namespace {

// M rows of activations, 32 of k at a time.
template <size_t M>
struct Bf16Rows {
  const std::byte* at;
  const int8_t* pair(size_t i, size_t j) const noexcept {
    return reinterpret_cast<const int8_t*>(at) + j * kBf16RowBytes + 4 * i;
  }
  void next() noexcept { at += M * kBf16RowBytes; }
};

struct Bf16Product {
  static constexpr quant::Packing kPacking = quant::BF16::kPacking;
  // 24 sums, with 11 loads for a pair of k: 12 rows and 2 vectors would need 14 loads.
  static constexpr size_t kGroupRows = 8;
  static constexpr size_t kPanelVectors = 3;
  static constexpr size_t kMaxPasses = 0;
  // A panel of 110 KB for 1,152 of k. Sums stay in registers for so long that reading the panel
  // from the second-level cache costs less than writing and reading sums more often.
  static constexpr size_t kSlabBlocks = 18;
  static constexpr size_t kBlockRowBytes = kBf16RowBytes;
  template <size_t V>
  using Strips = PairStrips<V>;
  template <size_t V>
  using Panel = PairPanel<V>;
  template <size_t M>
  using Rows = Bf16Rows<M>;
  using PanelProduct = Bf16Product;
  template <size_t V>
  static Panel<V> panel(const uint8_t* at, int) noexcept {
    return {at};
  }
  static constexpr int kLog2 = 0;

  template <class Weights, size_t V, size_t M>
  static void add(Weights weights, Bf16Rows<M> rows, size_t n_blocks, F (&acc)[V][M]) noexcept {
    for (size_t b = 0; b < n_blocks; ++b, weights.next()) {
      weights.prefetch();
      for (size_t input = 0; input < kInputsOfBlock; ++input, rows.next()) {
        for (size_t i = 0; i < kActivationGroup / 2; ++i) {
          Isa::Bytes w[V];
          for (size_t v = 0; v < V; ++v) w[v] = weights.pair(input * kActivationGroup / 2 + i, v);
          for (size_t j = 0; j < M; ++j) {
            const Isa::Bytes x = Isa::broadcast4(rows.pair(i, j));
            for (size_t v = 0; v < V; ++v) acc[v][j] = Bf16Dot::dot2(acc[v][j], w[v], x);
          }
        }
      }
    }
  }
  static F factor(const GemmArgs&, size_t) noexcept { return Isa::set1(1.0f); }
};

}  // namespace
}  // namespace billow::kernels
