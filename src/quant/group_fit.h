// The search of the encoders of 256-element formats. Parts of a group get a scale (and a minimum)
// by weighted least squares over several trial scales. Then scales become small integers of one f16
// scale, and codes are computed last. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace billow::quant {

inline constexpr size_t kSuperGroupLen = 256;

// x[i] ~ d * part_scales[p] * codes[i] - d_min * part_mins[p], with p = i / part_len.
struct AffineGroup {
  float d;  // d and d_min are already rounded to f16
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

// x[i] ~ d * part_scales[p] * codes[i]. Codes are in -n_steps..n_steps - 1. Part scales are in
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

// As fit_symmetric with parts of 32 and 32 part steps. Code c means values[c]; there are 16 values
// in ascending order.
SymmetricGroup fit_codebook(const float* x, const int8_t* values) noexcept;

// Returns the index of the value nearest to x among 16 ascending values; halfway, the upper one.
// Returns 0 for NaN.
uint8_t nearest_entry(const int8_t* values, float x) noexcept;

// Returns the code of the value nearest to x in d * kFp4Values (packing.h); of equal ones, the
// first.
uint8_t nearest_fp4_code(float x, float d) noexcept;

// The signs of elements in addition to their levels.
enum class GridSigns : uint8_t {
  kNone,  // the levels' values include signs
  kEven,  // a sign for each element; of 8 elements an even number is negative
  kFree,  // a sign for each element
};

// A format whose elements have levels in the combinations of a grid (grids.h).
struct GridFormat {
  std::span<const uint16_t> entries;
  size_t level_bits;        // 2: an entry has 8 elements; 3: it has 4
  const int8_t* values[2];  // values of the levels; the second, if not null, is an alternative
  size_t choice_len;        // elements that use the same values, at least those of an entry
  GridSigns signs;
  size_t part_len;  // 16 or 32
  int max_scale;    // max scale of a part
  float unit;
};

// x[i] ~ unit * d * (2 * part_scales[p] + 1) * (-1 if its bit in signs is set) * value of the level
struct GridGroup {
  float d;  // already rounded to f16
  uint8_t part_scales[16];
  uint16_t indices[64];  // indices of entries
  uint8_t signs[32];     // bit i % 8 of byte i / 8
  bool second[32];       // for each 8 elements: whether they use values[1]
};

GridGroup fit_grid(const float* x, const GridFormat& format) noexcept;

}  // namespace billow::quant
