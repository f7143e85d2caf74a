// Groups of 256 elements whose parts have small integers as scales (and minima):
//     x = unit * scale * code - min_unit * min.
// In addition to unpack (see unpack.h), a format with such parts has
//     template <class Isa> static void unpack_codes(const Group&, int8_t* codes) noexcept;
//     template <class Isa> static void unpack_parts(const Group&, Parts&) noexcept;
// unpack_by_parts computes unpack from these. The packed form copies the integers without change.
#pragma once

#include <cstddef>
#include <cstdint>

namespace billow::quant {

struct Parts {
  float unit;
  float min_unit;      // 0 if the format has no minima
  uint8_t scales[16];  // of each part of 16 or 32; signed if the format has no minima
  uint8_t mins[16];
};

template <class Isa, class Format>
inline void unpack_by_parts(const typename Format::Group& group, int8_t* __restrict codes,
                            float* __restrict scales, float* __restrict offsets) noexcept {
  Format::template unpack_codes<Isa>(group, codes);
  Parts parts;
  Format::template unpack_parts<Isa>(group, parts);
  constexpr size_t kRepeats = 2 / Format::kPacking.scales_per_32;
#pragma GCC unroll 1
  for (size_t i = 0; i < 16; ++i) {
    const uint8_t scale = parts.scales[i / kRepeats];
    if constexpr (Format::kPacking.offsets) {
      scales[i] = parts.unit * static_cast<float>(scale);
      offsets[i] = -parts.min_unit * static_cast<float>(parts.mins[i / kRepeats]);
    } else {
      scales[i] = parts.unit * static_cast<float>(static_cast<int8_t>(scale));
      offsets[i] = 0.0f;
    }
  }
}

}  // namespace billow::quant
