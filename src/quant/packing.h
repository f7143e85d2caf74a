// The packed form of weights: what the kernels stream. 16 rows of a matrix (output columns of the
// product) stand side by side, so that a vector's lanes are 16 outputs and nothing is ever summed
// across lanes.
//
// A strip is 16 rows: 16 floats, the factor of each row, then for each 64 of k one block:
//   low codes   16 quads of k, each [16 rows][4 k]. 4 to 6 bits: nibbles, quad 2 j in the low and
//   quad 2 j + 1 in the
//               high half of 64 bytes; 8 bits: a byte each, signed
//   5 bits      128 bytes: bit 4 of quad q, 64 bits in the order of its bytes, at 8 q
//   6 bits      256 bytes: bits 4-5 of quad 4 i + j at bit 2 j of the 64 bytes at 64 i
//   scales      f16 [2 or 4][16 rows]: of each 32 or 16 of k
//   offsets     the same, where the format has them
// weight = factor * (scale * (code - zero) + offset). Rows beyond the matrix and k beyond the row
// are 0. Everything lies at multiples of 64 bytes. Scales that f16 holds exactly are kept exactly
// (the factor is 1 then); products of a K-quant's scales are rounded to f16 relative to the row's
// largest.
#pragma once

#include <cstddef>
#include <cstdint>

namespace billow::quant {

inline constexpr size_t kStripRows = 16;
inline constexpr size_t kPackedBlock = 64;  // of k

struct Packing {
  uint8_t bits = 0;           // of a code: 4, 5, 6 or 8; of a float: 16 or 32
  uint8_t scales_per_32 = 1;  // 1 or 2
  bool offsets = false;

  friend constexpr bool operator==(const Packing&, const Packing&) = default;
  // What is added to a code to make it unsigned; 8-bit codes stay signed.
  constexpr int zero() const { return offsets || bits == 8 ? 0 : 1 << (bits - 1); }
  constexpr size_t code_bytes() const { return kStripRows * kPackedBlock * bits / 8; }
  constexpr size_t scale_bytes() const { return size_t{2} * scales_per_32 * kStripRows * 2; }
  constexpr size_t block_bytes() const { return code_bytes() + scale_bytes() * (offsets ? 2 : 1); }
  constexpr bool integer() const { return bits <= 8; }
  constexpr size_t strip_bytes(size_t k) const {
    const size_t n_blocks = (k + kPackedBlock - 1) / kPackedBlock;
    return integer() ? kStripRows * sizeof(float) + n_blocks * block_bytes()
                     : n_blocks * code_bytes();
  }
  constexpr size_t matrix_bytes(size_t n, size_t k) const {
    return (n + kStripRows - 1) / kStripRows * strip_bytes(k);
  }
};

}  // namespace billow::quant
