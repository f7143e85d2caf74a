// The common form of weights for every integer kernel: signed codes with a scale and an offset for
// each 16 of them,
//     x[i] = scale[i / 16] * code[i] + offset[i / 16].
//
// A format in types/ defines
//     template <class Isa> static void unpack(const Group& group, int8_t* codes, float* scales,
//                                             float* offsets) noexcept;
// which writes kGroupLen codes in element order and kGroupLen / 16 scales and offsets. The three
// outputs do not overlap. Codes are in -128..127. The loops are plain and short, so that the
// compiler vectorises them for each ISA. Isa has the functions that the compiler cannot vectorise:
//     static float Isa::f16_to_f32(uint16_t half) noexcept;
//     // out[i] = table[nibbles[i]] for n nibbles of 0..15, n a multiple of 16. Nothing overlaps.
//     static void Isa::lookup16(const int8_t* table, const uint8_t* nibbles, int8_t* out,
//                               size_t n) noexcept;
// scalar_isa.h has the version in plain C++.
//
// An Isa tag has internal linkage, so that files built for different processors share no
// instantiation. For the same reason, unpack calls only Isa, templates on Isa and compiler
// builtins. A file built for one processor may call unpack, but never decode or encode.
//
// Two rules keep unpack fast (each was worth a factor of 5 to 40 with GCC 12). A loop of 16 or
// fewer steps needs an unroll pragma of 1, otherwise GCC unrolls it into scalar code before it can
// vectorise it. An array between two steps must be read in pieces no wider than the writes,
// otherwise the processor waits for the stores.
#pragma once

#include <cstddef>
#include <cstdint>

namespace billow::quant {

inline constexpr size_t kScaleGroup = 16;  // codes that share a scale

}  // namespace billow::quant
