// F16: IEEE half precision, little-endian. Computed in floating point, so it has no integer form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quant/packed.h"
#include "quant/packing.h"
#include "quant/type.h"

namespace billow::quant {

struct F16 {
  struct Group {
    uint8_t value[2];
  };

  static constexpr Type kType = Type::kF16;
  static constexpr std::string_view kName = "F16";
  static constexpr size_t kGroupLen = 1;
  static constexpr size_t kGroupBytes = 2;
  static constexpr bool kInteger = false;
  static constexpr Packing kPacking = {.bits = 16};

  static void decode(const Group& group, float* out) noexcept { *out = load_f16(group.value); }

  // Values beyond the range of a half become infinity.
  static void encode(const float* in, Group& group) noexcept { store_f16(*in, group.value); }
};

}  // namespace billow::quant
