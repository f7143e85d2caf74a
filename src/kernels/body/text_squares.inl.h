// Squares of 16 x 16 floats: parts of the keys, values or queries of a text.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/math.inl.h"
#include "kernels/body/vocabulary.inl.h"
#include "kernels/kernel_table.h"

namespace billow::kernels {
namespace {

// Returns how many of `max` places from `begin` on are before `end`.
inline size_t places(size_t begin, size_t end, size_t max = kTextPanel) noexcept {
  const size_t n = begin < end ? end - begin : 0;
  return n < max ? n : max;
}

// Copies n_rows rows of `count` floats, at most 16, into a square of 16 x 16; the rest is 0.
inline void copy_square(const float* from, size_t stride, size_t n_rows, size_t count,
                        float* square) noexcept {
  for (size_t i = 0; i < kTextPanel; ++i) {
    for (size_t lane = 0; lane < kTextPanel; lane += Isa::kLanes) {
      const size_t n = i < n_rows ? places(lane, count, Isa::kLanes) : 0;
      Isa::store(square + i * kTextPanel + lane,
                 n == 0 ? Isa::zero() : load_lanes(from + i * stride + lane, n));
    }
  }
}

inline void turn_square(const float* from, float* to) noexcept {
  Isa::transpose_words(reinterpret_cast<const uint8_t*>(from), kTextPanel * sizeof(float),
                       reinterpret_cast<uint8_t*>(to));
}

}  // namespace
}  // namespace billow::kernels
