// The search behind the encoders of 256-element formats: parts of a group get a scale (and a
// minimum) by weighted least squares over several trial scales, these become small integers of one
// f16 scale, and the codes follow. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace billow::quant {

inline constexpr size_t kSuperGroupLen = 256;

// x[i] ~ d * part_scales[p] * codes[i] - d_min * part_mins[p], with p = i / part_len.
struct AffineGroup {
  float d;  // these two already rounded to f16
  float d_min;
  uint8_t part_scales[16];
  uint8_t part_mins[16];
  uint8_t codes[kSuperGroupLen];
};

struct AffineFormat {
  size_t part_len;  // 16 or 32
  int max_code;
  int max_part_scale;
};

AffineGroup fit_affine(const float* x, const AffineFormat& format) noexcept;

// x[i] ~ d * part_scales[p] * codes[i]. Codes are in -n_steps..n_steps - 1 and part scales in
// -n_part_steps..n_part_steps - 1.
struct SymmetricGroup {
  float d;  // already rounded to f16
  int8_t part_scales[16];
  int8_t codes[kSuperGroupLen];
};

struct SymmetricFormat {
  size_t part_len;
  int n_steps;
  int n_part_steps;
};

SymmetricGroup fit_symmetric(const float* x, const SymmetricFormat& format) noexcept;

// As fit_symmetric with parts of 32 and 32 part steps, where code c stands for values[c]: 16 of
// them, ascending.
SymmetricGroup fit_codebook(const float* x, const int8_t* values) noexcept;

// The entry of values (16 of them, ascending) nearest to x, the upper one when halfway. NaN gives
// the first.
uint8_t nearest_entry(const int8_t* values, float x) noexcept;

// The code of the value nearest to x in d * kFp4Values (packing.h), the first of several.
uint8_t nearest_fp4_code(float x, float d) noexcept;

// What signs elements have beside their levels.
enum class GridSigns : uint8_t {
  kNone,  // the levels' values have signs themselves
  kEven,  // one each; of 8 an even number is negative
  kFree,  // one each
};

// A format whose elements have levels in the combinations of a grid (grids.h).
struct GridFormat {
  std::span<const uint16_t> entries;
  size_t level_bits;        // 2: an entry is 8 elements; 3: 4
  const int8_t* values[2];  // of the levels; the second, if not null: another choice
  size_t choice_len;        // elements that make that choice together, at least an entry's
  GridSigns signs;
  size_t part_len;  // 16 or 32
  int max_scale;    // of a part's
  float unit;
};

// x[i] ~ unit * d * (2 * part_scales[p] + 1) * (-1 where signs has its bit) * value of the level
struct GridGroup {
  float d;  // already rounded to f16
  uint8_t part_scales[16];
  uint16_t indices[64];  // of entries
  uint8_t signs[32];     // bit i % 8 of byte i / 8
  bool second[32];       // of each 8 elements: whether values[1] holds
};

GridGroup fit_grid(const float* x, const GridFormat& format) noexcept;

}  // namespace billow::quant
