// The searches behind the encoders: scales, minima and codes of a tile of groups at once. They are
// those of llama-quantize, sum for sum in the same order and without fused multiply-adds, so that
// files come out byte for byte alike; a lane of a vector is a group, and so vectors change no bit.
// Compiled once for each instruction set. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/group_fit.h"

namespace billow::quantize {

inline constexpr size_t kTileGroups = 16;

// Groups side by side: element i of group g is x[g * group_len + i].
struct Tile {
  const float* x;
  const float* importance;  // of each element, laid out as x; null: none
  // What is added to x^2 in the weight of an element of blocks of 32: the mean of x^2 of its row.
  const float* row_mean_squares;  // one a group
};

// x ~ scale * code for codes -n_steps..n_steps - 1, or x ~ scale * code + min for 0..max_code.
struct BlockFit {
  float scale;
  float min;          // 0 or less; 0 for signed codes
  uint8_t codes[32];  // signed codes plus n_steps
};

struct Fits {
  // Q2_K, Q4_K and Q5_K, told apart by the format's numbers.
  void (*affine)(const Tile&, const quant::AffineFormat&, quant::AffineGroup* out) noexcept;
  // Q3_K
  void (*refined)(const Tile&, const quant::SymmetricFormat&, quant::SymmetricGroup* out) noexcept;
  // Q6_K
  void (*signed_parts)(const Tile&, const quant::SymmetricFormat&,
                       quant::SymmetricGroup* out) noexcept;
  // IQ4_XS; values are those of the codes, 16 of them, ascending.
  void (*codebook)(const Tile&, const int8_t* values, quant::SymmetricGroup* out) noexcept;
  // Blocks of 32. IQ4_NL:
  void (*codebook_block)(const Tile&, const int8_t* values, BlockFit* out) noexcept;
  // Q4_0 and Q5_0, Q4_1 and Q5_1. REQUIRES: an importance.
  void (*signed_block)(const Tile&, int n_steps, BlockFit* out) noexcept;
  void (*affine_block)(const Tile&, int max_code, BlockFit* out) noexcept;
  // The scale alone, for codes 0..max_code; the importance is the elements' weight as it is.
  void (*positive_block)(const Tile&, int max_code, float* scales) noexcept;
};

extern const Fits kFitsBaseline;
extern const Fits kFitsAvx2;
extern const Fits kFitsAvx512;

// The fastest that this processor runs.
const Fits& fits() noexcept;

}  // namespace billow::quantize
