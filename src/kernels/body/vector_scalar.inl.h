// The vector vocabulary with one lane, in plain C++. It is the reference for every other table.
// Every Isa has the whole vocabulary:
//   F                     a vector of kLanes floats, with the operators + - * /
//   load_first, store_first  the first n < kLanes lanes; the others are 0, or not written
//   load_signed, load_unsigned, load_low_nibbles, load_high_nibbles  floats of kLanes bytes, or of
//                         their halves
//   keep_above(x, limit, value)  value if x > limit, otherwise 0
//   Bytes                 kLanes times 4 codes of k, or 2 floats of 16 bits
//   greater_magnitude(a, x)  the max of a >= 0 and |x|; a value that is not finite is above all
//                         others. max_magnitude(a): the same over all lanes.
//   sum_codes(codes, sums)   the sums of 16 codes and of the next 16
//   signed_byte(v, i)     byte i of each lane
//   dot4(sum, w, x)       each lane's sum plus the products of its 4 codes, w unsigned, x signed.
//                         dot4_signed takes signed w, which prepare_signed has raised by
//                         kSignedBias.
//   dot2(sum, w, x)       the same for 2 signed 16-bit codes
//   kPairs                dot products are first summed in 16 bits: pairs, add_pairs, add_widened
//   kFewVectors           vectors of weights that are computed together: 4 for up to kFewVectors[0]
//                         rows, 2 for up to kFewVectors[1] rows, otherwise 1
//   kMaxPasses            max groups of rows that pass over strips one after another; for more
//                         groups, weights are decoded into a panel
//   kGroupRows, kPanelVectors  rows and vectors of a tile of many rows
//   kFloatGroupRows       rows of a tile of many rows, for floats
#pragma once

#define BILLOW_VECTORS

#include <cstddef>
#include <cstdint>

namespace billow::kernels {
namespace {

struct Isa {
  using F = float;
  static constexpr size_t kLanes = 1;
  static F zero() noexcept { return 0.0f; }
  static F set1(float x) noexcept { return x; }
  static F load(const float* p) noexcept { return *p; }
  static void store(float* p, F x) noexcept { *p = x; }
  static F load_first(const float*, size_t) noexcept { return 0.0f; }
  static void store_first(float*, F, size_t) noexcept {}
  static F load_f16(const uint16_t* p) noexcept { return f16_to_f32(*p); }
  static void store_f16(uint16_t* p, F x) noexcept { *p = f32_to_f16(x); }
  static F load_signed(const int8_t* p) noexcept { return *p; }
  static F load_unsigned(const uint8_t* p) noexcept { return *p; }
  static F load_low_nibbles(const uint8_t* p) noexcept { return static_cast<float>(*p & 15); }
  static F load_high_nibbles(const uint8_t* p) noexcept { return static_cast<float>(*p >> 4); }
  static F fma(F a, F b, F c) noexcept { return a * b + c; }
  static F max(F a, F b) noexcept { return a > b ? a : b; }
  static F min(F a, F b) noexcept { return a < b ? a : b; }
  static float sum(F x) noexcept { return x; }
  static float largest(F x) noexcept { return x; }
  static F greater_magnitude(F a, F x) noexcept {
    const uint32_t mine = __builtin_bit_cast(uint32_t, a);
    const uint32_t other = __builtin_bit_cast(uint32_t, x) & 0x7FFFFFFFu;
    return __builtin_bit_cast(float, mine > other ? mine : other);
  }
  static float max_magnitude(F x) noexcept { return x; }
  static F keep_above(F x, F limit, F value) noexcept { return x > limit ? value : 0.0f; }
  static F round(F x) noexcept { return __builtin_rintf(x); }
  static F power_of_two(F n) noexcept { return __builtin_ldexpf(1.0f, static_cast<int>(n)); }

  // This code does not use the software conversions of quant/half.h. Files for different processors
  // would share such an inline function, and the linker could pick the wrong one.
  static float f16_to_f32(uint16_t h) noexcept {
    const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
    const uint32_t rest = h & 0x7FFFu;
    if (rest >= 0x7C00u) return __builtin_bit_cast(float, sign | 0x7F800000u | (rest << 13));
    const float magnitude = rest < 0x0400u ? static_cast<float>(rest) * 0x1p-24f
                                           : __builtin_bit_cast(float, (rest << 13) + 0x38000000u);
    return __builtin_bit_cast(float, sign | __builtin_bit_cast(uint32_t, magnitude));
  }
  static uint16_t f32_to_f16(float f) noexcept {
    const uint32_t bits = __builtin_bit_cast(uint32_t, f);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t rest = bits & 0x7FFFFFFFu;
    uint32_t half = 0;
    if (rest > 0x7F800000u) {
      half = 0x7E00u;
    } else if (rest >= 0x477FF000u) {
      half = 0x7C00u;
    } else if (rest < 0x38800000u) {
      half = __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, rest) + 0.5f) - 0x3F000000u;
    } else {
      half = (rest + 0xFFFu + ((rest >> 13) & 1u) - 0x38000000u) >> 13;
    }
    return static_cast<uint16_t>(sign | half);
  }
  static void lookup16(const int8_t* table, const uint8_t* nibbles, int8_t* out,
                       size_t n) noexcept {
    for (size_t i = 0; i < n; ++i) out[i] = table[nibbles[i]];
  }

  // Packed weights: a vector of kLanes outputs, each with 4 codes of k.
  using Bytes = uint8_t __attribute__((vector_size(4)));
  using Ints = int32_t;
  static Ints ints(int32_t x) noexcept { return x; }
  static Ints shifted(const int32_t* p, Ints n) noexcept { return n < 0 ? 0 : *p * (1 << n); }
  static F to_float(Ints x) noexcept { return static_cast<float>(x); }
  static Ints signed_byte(Bytes v, unsigned i) noexcept { return static_cast<int8_t>(v[i]); }
  static Bytes load_bytes(const uint8_t* p) noexcept {
    Bytes v;
    __builtin_memcpy(&v, p, 4);
    return v;
  }
  static void store_bytes(uint8_t* p, Bytes v) noexcept { __builtin_memcpy(p, &v, 4); }
  // The low and high 16 bits of each lane, as floats.
  static uint32_t word(Bytes v) noexcept { return __builtin_bit_cast(uint32_t, v); }
  static F low_f16(Bytes v) noexcept { return f16_to_f32(static_cast<uint16_t>(word(v))); }
  static F high_f16(Bytes v) noexcept { return f16_to_f32(static_cast<uint16_t>(word(v) >> 16)); }
  static F low_bf16(Bytes v) noexcept { return __builtin_bit_cast(float, word(v) << 16); }
  static F high_bf16(Bytes v) noexcept { return __builtin_bit_cast(float, word(v) & 0xFFFF0000u); }
  static void store_codes(int8_t* p, F x) noexcept { *p = static_cast<int8_t>(round(x)); }
  static void sum_codes(const int8_t* codes, int32_t* sums) noexcept {
    sums[0] = sums[1] = 0;
    for (size_t i = 0; i < 32; ++i) sums[i / 16] += codes[i];
  }
  static void store_codes16(int16_t* p, F x) noexcept { *p = static_cast<int16_t>(round(x)); }
  static Bytes broadcast4(const int8_t* p) noexcept {
    return load_bytes(reinterpret_cast<const uint8_t*>(p));
  }
  // Adds kValue, a power of two, to byte i of v if bit 4 * lane + i is set. REQUIRES: the byte does
  // not contain kValue.
  template <uint8_t kValue>
  static Bytes bit_as(Bytes v, const uint8_t* bits, size_t lane) noexcept {
    for (size_t i = 0; i < 4; ++i) {
      const size_t at = 4 * lane + i;
      v[i] = static_cast<uint8_t>(v[i] | (((bits[at / 8] >> at % 8) & 1) * kValue));
    }
    return v;
  }
  // Replaces each byte, a code of 0 to 15, with its entry in a table of 16.
  static Bytes lookup_bytes(const int8_t* table, Bytes codes) noexcept {
    for (size_t i = 0; i < 4; ++i) codes[i] = static_cast<uint8_t>(table[codes[i]]);
    return codes;
  }
  static constexpr int kSignedBias = 0;
  static Ints dot4(Ints sum, Bytes w, Bytes x) noexcept {
    for (size_t i = 0; i < 4; ++i) sum += w[i] * static_cast<int8_t>(x[i]);
    return sum;
  }
  static int16_t half_word(Bytes v, unsigned shift) noexcept {
    return static_cast<int16_t>(word(v) >> shift);
  }
  static Ints dot2(Ints sum, Bytes w, Bytes x) noexcept {
    const auto product = [&](unsigned at) { return int64_t{half_word(w, at)} * half_word(x, at); };
    const int64_t wide = sum + product(0) + product(16);
    // Values that were never written may overflow, as in the instructions.
    return static_cast<Ints>(wide);
  }
  static Bytes prepare_signed(Bytes w) noexcept { return w; }
  static Ints dot4_signed(Ints sum, Bytes w, Bytes x) noexcept {
    for (size_t i = 0; i < 4; ++i) sum += static_cast<int8_t>(w[i]) * static_cast<int8_t>(x[i]);
    return sum;
  }
  static constexpr bool kPairs = false;
  static constexpr size_t kFewVectors[2] = {0, 0};
  static constexpr size_t kGroupRows = 4;
  static constexpr size_t kMaxPasses = 0;
  static constexpr size_t kFloatGroupRows = 4;
  static constexpr size_t kPanelVectors = 4;
  // Attention: rows of a tile, 2 * kLanes 8-bit codes as 16-bit codes, BF16 scales, the first n
  // lanes of x and the others of rest (n <= kLanes), whether a lane of x is above that of limit,
  // lane 0. exchange<H>(x), where H < kLanes, has in lane i the value that x has in lane i ^ H.
  template <size_t H>
  static F exchange(F x) noexcept {
    return x;
  }
  static constexpr size_t kAttentionRows = 4;
  static Bytes load_widened(const int8_t* p) noexcept {
    const int16_t pair[2] = {p[0], p[1]};
    return load_bytes(reinterpret_cast<const uint8_t*>(pair));
  }
  static F load_bf16(const uint16_t* p) noexcept {
    return __builtin_bit_cast(float, static_cast<uint32_t>(*p) << 16);
  }
  static F keep_first(F x, size_t n, F rest) noexcept { return n > 0 ? x : rest; }
  static bool any_above(F x, F limit) noexcept { return x > limit; }
  static float first(F x) noexcept { return x; }
  // Packing. out[j][i] = in[i][j] for 16 x 16 words of 4 bytes. Rows of `in` are `stride` bytes
  // apart, those of `out` 64 bytes.
  static void transpose_words(const uint8_t* in, size_t stride, uint8_t* out) noexcept {
    for (size_t i = 0; i < 16; ++i) {
      for (size_t j = 0; j < 16; ++j)
        __builtin_memcpy(out + 64 * j + 4 * i, in + i * stride + 4 * j, 4);
    }
  }
  // Bit i of the 8 bytes at `out` = bit kBit of byte i of the 64 at `in`.
  template <int kBit>
  static void collect_bit(const uint8_t* in, uint8_t* out) noexcept {
    for (size_t i = 0; i < 8; ++i) {
      unsigned bits = 0;
      for (size_t j = 0; j < 8; ++j) bits |= ((in[8 * i + j] >> kBit) & 1u) << j;
      out[i] = static_cast<uint8_t>(bits);
    }
  }
};

}  // namespace
}  // namespace billow::kernels
