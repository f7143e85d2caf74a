// The packed form of weights, which the kernels read. 16 rows of a matrix (output columns of the
// product) are interleaved, so that a vector's lanes are 16 outputs. Nothing is ever summed across
// lanes.
//
// A strip is 16 rows: 16 floats, the factor of each row, then one block for each 64 of k:
//   low codes   16 quads of k, each [16 rows][4 k].
//               4 to 6 bits: nibbles. Quad 2 j is in the low half and quad 2 j + 1 in the high half
//               of the 64 bytes at 64 j.
//               8 bits: a byte each, signed.
//               2 and 3 bits: bits 0-1 of quad 4 i + j are at bit 2 j of the 64 bytes at 64 i.
//   3 bits      128 bytes: bit 2 of quad q, 64 bits in the order of its bytes, at 8 q
//   5 bits      128 bytes: bit 4 of quad q, 64 bits in the order of its bytes, at 8 q
//   6 bits      256 bytes: bits 4-5 of quad 4 i + j at bit 2 j of the 64 bytes at 64 i
//   scales      f16 [2 or 4][16 rows]: of each 32 or 16 of k
//   offsets     the same, if the format has them
// Formats of 256 elements whose parts have small integers as scales keep these integers. Their
// blocks have only codes. A head comes before each four blocks:
//   units       without offsets: float [16 rows]; with offsets: f16 [16 rows] of the scales, then
//               f16 [16 rows] of the offsets, negative if offsets are subtracted
//   scales      bytes [8 or 16][16 rows]: of each 32 or 16 of k; signed if there are no offsets.
//               A scale is unit * byte
//   offsets     the same, unsigned, if the format has them. If both take 4 bits, the offset is the
//               upper half of the scale's byte
// weight = factor * (scale * (code - zero) + offset). For formats with unevenly spaced values,
// weight = factor * scale * codebook[code]. Rows beyond the matrix and k beyond the row are 0. All
// parts begin at multiples of 64 bytes. Scales that f16 holds exactly are kept exactly (then the
// factor is 1), and so are scales in heads. Other scales are rounded to f16, relative to the row's
// max.
#pragma once

#include <cstddef>
#include <cstdint>

namespace billow::quant {

inline constexpr size_t kStripRows = 16;
inline constexpr size_t kPackedBlock = 64;  // of k
inline constexpr size_t kHeadLen = 256;     // k that share a head
inline constexpr size_t kHeadUnitBytes = kStripRows * sizeof(float);

// The values of the codes of a format with unevenly spaced values: 16, or 8 followed by 0.
struct Codebook {
  int8_t values[16];
};
inline constexpr Codebook kIq4Values = {
    {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}};
// Twice the values of floats of 1 sign, 2 exponent and 1 mantissa bit.
inline constexpr Codebook kFp4Values = {{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}};
// For the IQ formats with grids: a level, and above it a bit for its sign. Codes of 3 bits.
inline constexpr Codebook kIq2Values = {{8, 25, 43, 0, -8, -25, -43, 0}};
// The same, with codes of 4 bits.
inline constexpr Codebook kIq3Values = {
    {4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62}};
inline constexpr Codebook kOddValues = {
    {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15}};
// 8 times a level of -1, 0 or 1, plus a shift of 1. The bit above the level makes the shift -1.
// Codes of 3 bits.
inline constexpr Codebook kIq1Values = {{-7, 1, 9, 0, -9, -1, 7, 0}};

enum class CodeValues : uint8_t { kEven, kIq4, kFp4, kIq2, kIq3, kOdd, kIq1 };

// The form of scales: f16 in each block, or integers in heads, of 8 bits or of 4.
enum class ScaleForm : uint8_t { kHalves, kBytes, kNibbles };

struct Packing {
  uint8_t bits = 0;           // bits of a code: 2 to 6 or 8; of a float: 16 or 32
  uint8_t scales_per_32 = 1;  // 1 or 2
  bool offsets = false;
  CodeValues values = CodeValues::kEven;      // other than kEven: 3 or 4 bits, no offsets
  ScaleForm scale_form = ScaleForm::kHalves;  // kNibbles: with offsets only

  friend constexpr bool operator==(const Packing&, const Packing&) = default;
  // Returns the number that is added to a code to make it unsigned; 8-bit codes stay signed.
  constexpr int zero() const {
    return offsets || bits == 8 || has_codebook() ? 0 : 1 << (bits - 1);
  }
  constexpr bool has_codebook() const { return values != CodeValues::kEven; }
  // Returns whether codes, or their values in a codebook, are signed.
  constexpr bool is_signed() const { return bits == 8 || has_codebook(); }
  // REQUIRES: has_codebook().
  constexpr Codebook codebook() const {
    constexpr Codebook kAll[] = {{},         kIq4Values, kFp4Values, kIq2Values,
                                 kIq3Values, kOddValues, kIq1Values};
    return kAll[static_cast<size_t>(values)];
  }
  constexpr size_t code_bytes() const { return kStripRows * kPackedBlock * bits / 8; }
  // Returns the bytes of a block's scales, which are also those of its offsets. Only for kHalves.
  constexpr size_t scale_bytes() const { return size_t{2} * scales_per_32 * kStripRows * 2; }
  constexpr bool has_heads() const { return scale_form != ScaleForm::kHalves; }
  // Bytes of one head, and of only its scales.
  constexpr size_t head_scale_bytes() const { return size_t{8} * scales_per_32 * kStripRows; }
  constexpr size_t head_bytes() const {
    if (!has_heads()) return 0;
    const size_t n_tables = offsets && scale_form == ScaleForm::kBytes ? 2 : 1;
    return kHeadUnitBytes + n_tables * head_scale_bytes();
  }
  constexpr size_t block_bytes() const {
    return code_bytes() + (has_heads() ? 0 : scale_bytes() * (offsets ? 2 : 1));
  }
  // Returns the number of blocks from one head to the next. A run is these blocks with their head.
  constexpr size_t run_blocks() const { return has_heads() ? kHeadLen / kPackedBlock : 1; }
  constexpr size_t run_bytes() const { return head_bytes() + run_blocks() * block_bytes(); }
  constexpr bool integer() const { return bits <= 8; }
  // REQUIRES: if there are heads, k is a multiple of 256.
  constexpr size_t strip_bytes(size_t k) const {
    const size_t run_len = run_blocks() * kPackedBlock;
    const size_t n_runs = (k + run_len - 1) / run_len;
    return integer() ? kStripRows * sizeof(float) + n_runs * run_bytes() : n_runs * code_bytes();
  }
  constexpr size_t matrix_bytes(size_t n, size_t k) const {
    return (n + kStripRows - 1) / kStripRows * strip_bytes(k);
  }
};

}  // namespace billow::quant
