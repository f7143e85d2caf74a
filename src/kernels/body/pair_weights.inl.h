// Weights of 16 bits whose products use two of k at a time, in the layout of strips.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/float_product.inl.h"
#include "quant/packing.h"
#include "quant/types/bf16.h"

namespace billow::kernels {
namespace {

// V vectors of weights directly from their strips: of each pair of k, two halves in a lane.
template <size_t V>
struct PairStrips : FloatStrips<quant::BF16, V> {
  using Base = FloatStrips<quant::BF16, V>;
  using Base::Base;
  Isa::Bytes pair(size_t i, size_t v) const noexcept {
    return Isa::load_bytes(Base::block[v] + i * Base::kPairBytes + Base::half[v] * kLaneBytes);
  }
};

// The same weights, copied next to each other for many rows.
template <size_t V>
struct PairPanel {
  static constexpr size_t kBlockBytes = quant::kPackedBlock / 2 * V * kLaneBytes;
  const uint8_t* block;

  void prefetch() const noexcept {}
  Isa::Bytes pair(size_t i, size_t v) const noexcept {
    return Isa::load_bytes(block + (i * V + v) * kLaneBytes);
  }
  void next() noexcept { block += kBlockBytes; }

  template <class Strips>
  static void fill(Strips strips, size_t n_blocks, uint8_t* out) noexcept {
    for (size_t b = 0; b < n_blocks; ++b, strips.next(), out += kBlockBytes) {
      strips.prefetch();
      for (size_t i = 0; i < quant::kPackedBlock / 2; ++i) {
        for (size_t v = 0; v < V; ++v)
          Isa::store_bytes(out + (i * V + v) * kLaneBytes, strips.pair(i, v));
      }
    }
  }
};

}  // namespace
}  // namespace billow::kernels
