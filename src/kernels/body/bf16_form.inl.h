// Activations and weights as BF16, rounded by Bf16.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/float_product.inl.h"
#include "kernels/body/vocabulary.inl.h"
#include "kernels/kernel_table.h"

namespace billow::kernels {
namespace {

// For each 32 of k: bf16 [row][32].
constexpr size_t kBf16RowBytes = kActivationGroup * 2;
inline void write_bf16(const float* const* rows, size_t n_rows, size_t k, std::byte* out) noexcept {
  auto* to = reinterpret_cast<uint16_t*>(out);
  for (size_t i = 0; i < padded(k); i += kActivationGroup) {
    const size_t n = i + kActivationGroup <= k ? kActivationGroup : i < k ? k - i : 0;
    for (size_t row = 0; row < n_rows; ++row, to += kActivationGroup) {
      const float* from = rows[row] + i;
      float last[kActivationGroup];
      if (n < kActivationGroup) {
        for (size_t j = 0; j < kActivationGroup; ++j) last[j] = j < n ? from[j] : 0.0f;
        from = last;
      }
      for (size_t j = 0; j < kActivationGroup; j += Isa::kLanes)
        Bf16::store(to + j, Isa::load(from + j));
    }
  }
}

inline void store_pairs(uint16_t* to, F even, F odd) noexcept {
  Isa::store_bytes(reinterpret_cast<uint8_t*>(to), Bf16::pairs(even, odd));
}

// Packs a strip of F16 weights, rounded to BF16.
inline void pack_f16_as_bf16(const PackArgs& args) noexcept {
  pack_floats<quant::F16>(args);
  auto* strip = reinterpret_cast<uint8_t*>(args.out);
  for (size_t at = 0; at < quant::kStripRows * padded(args.k) * 2; at += kLaneBytes) {
    const Isa::Bytes halves = Isa::load_bytes(strip + at);
    Isa::store_bytes(strip + at, Bf16::pairs(Isa::low_f16(halves), Isa::high_f16(halves)));
  }
}

}  // namespace
}  // namespace billow::kernels
