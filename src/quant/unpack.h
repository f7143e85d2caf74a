// The form in which every integer kernel consumes weights, whatever their format: signed codes with
// a scale and an offset for each 16 of them,
//     x[i] = scale[i / 16] * code[i] + offset[i / 16].
//
// A format in types/ gives
//     template <class Isa> static void unpack(const Group& group, int8_t* codes, float* scales,
//                                             float* offsets) noexcept;
// which writes kGroupLen codes in element order and kGroupLen / 16 scales and offsets; the three
// outputs do not overlap. Codes are in -128..127. The loops are plain and short so that the
// compiler vectorises them for each ISA; Isa gives what it cannot find by itself:
//     static float Isa::f16_to_f32(uint16_t half) noexcept;
//     // out[i] = table[nibbles[i]] for n nibbles of 0..15, n a multiple of 16. Nothing overlaps.
//     static void Isa::lookup16(const int8_t* table, const uint8_t* nibbles, int8_t* out,
//                               size_t n) noexcept;
// scalar_isa.h has the plain one.
//
// An Isa tag has internal linkage, so that no instantiation is shared between files built for
// different processors; for the same reason unpack calls only Isa, templates on Isa and compiler
// builtins, and a file built for one processor calls unpack but never decode or encode.
//
// Two habits keep unpack fast (each was worth a factor of 5 to 40 with GCC 12). A loop of 16 or
// fewer steps carries an unroll pragma of 1, else it is unrolled into scalar code before it can be
// vectorised. An array between two steps is read in pieces no wider than those it was written in,
// else the processor waits for the stores.
#pragma once

#include <cstddef>
#include <cstdint>

namespace billow::quant {

inline constexpr size_t kScaleGroup = 16;  // codes that share a scale

}  // namespace billow::quant
