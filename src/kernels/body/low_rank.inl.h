// Low-rank additions of adapters to rows of products.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/math.inl.h"
#include "kernels/kernel_table.h"

namespace billow::kernels {
namespace {

inline F load_values(const float* p) noexcept { return Isa::load(p); }
inline F load_values(const uint16_t* p) noexcept { return Isa::load_f16(p); }
inline F load_values(const int8_t* p) noexcept { return Isa::load_signed(p); }

// Computes one block of outputs. `n` outputs count: all, or fewer in the last block. `scales` are
// the scales of rows of codes.
template <class Value>
void add_low_rank_block(const Value* b, [[maybe_unused]] const float* scales, size_t rank,
                        const float* h, size_t n, float* out) noexcept {
  constexpr size_t kVectors = kLowRankBlock / Isa::kLanes;
  F sums[kVectors];
  const auto lanes = [n](size_t v) {
    const size_t first = v * Isa::kLanes;
    return n <= first ? 0 : n - first < Isa::kLanes ? n - first : Isa::kLanes;
  };
  for (size_t v = 0; v < kVectors; ++v)
    sums[v] = lanes(v) == 0 ? Isa::zero() : load_lanes(out + v * Isa::kLanes, lanes(v));
  for (size_t j = 0; j < rank; ++j, b += kLowRankBlock) {
    float own = h[j];
    if constexpr (sizeof(Value) == 1) own *= scales[j];
    const F factor = Isa::set1(own);
    for (size_t v = 0; v < kVectors; ++v)
      sums[v] = Isa::fma(load_values(b + v * Isa::kLanes), factor, sums[v]);
  }
  for (size_t v = 0; v < kVectors; ++v)
    if (lanes(v) != 0) store_lanes(out + v * Isa::kLanes, sums[v], lanes(v));
}

template <class Value>
void add_low_rank_blocks(const LowRankArgs& args) noexcept {
  const size_t n_bytes = low_rank_bytes(kLowRankBlock, args.rank, args.values);
  const std::byte* block = args.b;
  for (size_t i = 0; i < args.n; i += kLowRankBlock, block += n_bytes) {
    const size_t n = args.n - i < kLowRankBlock ? args.n - i : kLowRankBlock;
    const Value* b = reinterpret_cast<const Value*>(block);
    const float* scales = reinterpret_cast<const float*>(b + args.rank * kLowRankBlock);
    add_low_rank_block(b, scales, args.rank, args.h, n, args.out + i);
  }
}

void add_low_rank(const LowRankArgs& args) noexcept {
  switch (args.values) {
    case LowRankValues::kFloats:
      return add_low_rank_blocks<float>(args);
    case LowRankValues::kHalves:
      return add_low_rank_blocks<uint16_t>(args);
    case LowRankValues::kCodes:
      return add_low_rank_blocks<int8_t>(args);
  }
}

}  // namespace
}  // namespace billow::kernels
