// The Isa in plain C++, for tests and as the reference for other Isas (see unpack.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/half.h"

namespace billow::quant {
namespace {

struct ScalarIsa {
  static float f16_to_f32(uint16_t half) noexcept { return quant::f16_to_f32(half); }

  static void lookup16(const int8_t* table, const uint8_t* nibbles, int8_t* out,
                       size_t n) noexcept {
    for (size_t i = 0; i < n; ++i) out[i] = table[nibbles[i]];
  }
};

}  // namespace
}  // namespace billow::quant
