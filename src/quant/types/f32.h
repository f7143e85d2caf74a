// F32: IEEE single precision, little-endian. Computed in floating point, so it has no integer form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "quant/packing.h"
#include "quant/type.h"

namespace billow::quant {

struct F32 {
  struct Group {
    uint8_t value[4];
  };

  static constexpr Type kType = Type::kF32;
  static constexpr std::string_view kName = "F32";
  static constexpr size_t kGroupLen = 1;
  static constexpr size_t kGroupBytes = 4;
  static constexpr bool kInteger = false;
  static constexpr Packing kPacking = {.bits = 32};

  static void decode(const Group& group, float* out) noexcept {
    std::memcpy(out, group.value, sizeof group.value);
  }

  static void encode(const float* in, Group& group) noexcept {
    std::memcpy(group.value, in, sizeof group.value);
  }
};

}  // namespace billow::quant
