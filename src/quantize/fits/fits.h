// The searches of the encoders: they find scales, minima and codes of a whole tile of groups. They
// compute the same sums in the same order as llama-quantize, without fused multiply-adds, so that
// files are equal byte for byte. Each lane of a vector is a group, so vectors change no bit.
// Compiled once for each instruction set. Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/group_fit.h"

namespace billow::quantize {

inline constexpr size_t kTileGroups = 16;

// Consecutive groups: element i of group g is x[g * group_len + i].
struct Tile {
  const float* x;
  const float* importance;  // one number per element, laid out like x; null: none
  // The mean of x^2 of the row of each group. The weights of elements of blocks of 32 add this
  // number to x^2.
  const float* row_mean_squares;  // one number per group
};

// x ~ scale * code for codes -n_steps..n_steps - 1, or x ~ scale * code + min for 0..max_code.
struct BlockFit {
  float scale;
  float min;          // 0 or less; 0 for signed codes
  uint8_t codes[32];  // signed codes plus n_steps
};

struct Fits {
  // Q2_K, Q4_K and Q5_K; the numbers of the format decide which.
  void (*affine)(const Tile&, const quant::AffineFormat&, quant::AffineGroup* out) noexcept;
  // Q3_K
  void (*refined)(const Tile&, const quant::SymmetricFormat&, quant::SymmetricGroup* out) noexcept;
  // Q6_K
  void (*signed_parts)(const Tile&, const quant::SymmetricFormat&,
                       quant::SymmetricGroup* out) noexcept;
  // IQ4_XS. `values` are the values of the 16 codes, ascending.
  void (*codebook)(const Tile&, const int8_t* values, quant::SymmetricGroup* out) noexcept;
  // Blocks of 32: IQ4_NL.
  void (*codebook_block)(const Tile&, const int8_t* values, BlockFit* out) noexcept;
  // Blocks of 32: signed_block is for Q4_0 and Q5_0, affine_block for Q4_1 and Q5_1. REQUIRES: an
  // importance.
  void (*signed_block)(const Tile&, int n_steps, BlockFit* out) noexcept;
  void (*affine_block)(const Tile&, int max_code, BlockFit* out) noexcept;
  // Finds only the scale, for codes 0..max_code. The importance is the weight of an element.
  void (*positive_block)(const Tile&, int max_code, float* scales) noexcept;
};

extern const Fits kFitsBaseline;
extern const Fits kFitsAvx2;
extern const Fits kFitsAvx512;

// Returns the fastest searches that this processor can run.
const Fits& fits() noexcept;

}  // namespace billow::quantize
