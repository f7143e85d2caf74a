// BF16: the upper half of an IEEE single, little-endian. Computed in floating point, so it has no
// integer form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "quant/half.h"
#include "quant/packing.h"
#include "quant/type.h"

namespace billow::quant {

struct BF16 {
  struct Group {
    uint8_t value[2];
  };

  static constexpr Type kType = Type::kBF16;
  static constexpr std::string_view kName = "BF16";
  static constexpr size_t kGroupLen = 1;
  static constexpr size_t kGroupBytes = 2;
  static constexpr bool kInteger = false;
  static constexpr Packing kPacking = {.bits = 16};

  static void decode(const Group& group, float* out) noexcept {
    uint16_t bits;
    std::memcpy(&bits, group.value, sizeof bits);
    *out = bf16_to_f32(bits);
  }

  static void encode(const float* in, Group& group) noexcept {
    const uint16_t bits = f32_to_bf16(*in);
    std::memcpy(group.value, &bits, sizeof bits);
  }
};

}  // namespace billow::quant
