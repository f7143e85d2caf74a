// Implements the searches of fits.h with one group per lane of a vector. The source file of each
// instruction set includes this file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quantize/fits/fits.h"
#include "quantize/fits/lanes.inl.h"

namespace billow::quantize {
namespace {

// Loads elements begin .. begin + n - 1 of kLanes groups, one group per lane.
template <size_t n>
BILLOW_LANES void load(const float* from, size_t group_len, size_t begin, Floats* to) noexcept {
  for (size_t i = 0; i < n; ++i) {
    for (size_t g = 0; g < kLanes; ++g) to[i][g] = from[g * group_len + begin + i];
  }
}

BILLOW_LANES Floats sum_of_squares(const Floats* x, size_t n) noexcept {
  Floats sum = all(0.0f);
  for (size_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return sum;
}

// Computes the weights of elements with an importance.
template <size_t n>
BILLOW_LANES void weigh(const Floats* x, const Floats* importance, const Floats& mean_square,
                        Floats* w) noexcept {
  for (size_t i = 0; i < n; ++i) w[i] = importance[i] * root(mean_square + x[i] * x[i]);
}

BILLOW_LANES Floats sum_of(const Floats* w, size_t n) noexcept {
  Floats sum = all(0.0f);
  for (size_t i = 0; i < n; ++i) sum += w[i];
  return sum;
}

constexpr size_t kMaxParts = 16;

// The two searches of an affine format: `plain` without an importance, `weighted` with one.
struct AffineSearches {
  AffineSearch plain;
  AffineSearch weighted;
  bool plain_by_size;        // weights without an importance: true: |x|; false: rms + |x|
  float mean_square_factor;  // factor of the mean of x^2 in weights with an importance
};

constexpr AffineSearch weighted_search(int max_code) noexcept {
  return {
      .max_code = max_code, .first = -0.9f, .step = 0.05f, .n_trials = 36, .absolute_error = false};
}

constexpr AffineSearches searches_of(int max_code) noexcept {
  if (max_code == 3) return {{3, -0.5f, 0.1f, 15, true}, weighted_search(3), true, 1.0f};
  if (max_code == 15) return {{15, -1.0f, 0.1f, 20, false}, weighted_search(15), false, 2.0f};
  return {{31, -0.5f, 0.1f, 15, false}, weighted_search(31), false, 2.0f};
}

// Turns values into integers with one common scale. The largest value decides the scale, without a
// search. Returns the scale.
template <size_t n>
BILLOW_LANES Floats by_largest(const Floats* values, int max_code, Ints* codes) noexcept {
  const auto steps = static_cast<float>(max_code);
  Floats max = all(0.0f);
  for (size_t p = 0; p < n; ++p) max = values[p] > max ? values[p] : max;
  const Ints some = max > 0.0f;
  const Floats inverse = some ? steps / max : all(0.0f);
  for (size_t p = 0; p < n; ++p) {
    const Ints code = rounded(inverse * values[p]) & 255;
    codes[p] = code > max_code ? all(max_code) : code;
  }
  return max / steps;
}

template <size_t part_len, int max_code, int max_part_scale>
void affine_lanes(const Tile& tile, quant::AffineGroup* out) noexcept {
  constexpr size_t kLen = quant::kSuperGroupLen;
  constexpr size_t kParts = kLen / part_len;
  constexpr AffineSearches kSearches = searches_of(max_code);
  Floats x[kLen];
  load<kLen>(tile.x, kLen, 0, x);
  const bool weighted = tile.importance != nullptr;
  const Floats mean_square =
      weighted ? kSearches.mean_square_factor * sum_of_squares(x, kLen) / static_cast<float>(kLen)
               : all(0.0f);
  AffineLine lines[kParts];
  Floats scales[kParts];
  Floats mins[kParts];
  Floats part_weights[kParts];
  for (size_t p = 0; p < kParts; ++p) {
    const Floats* part = x + p * part_len;
    Floats w[part_len];
    if (weighted) {
      Floats importance[part_len];
      load<part_len>(tile.importance, kLen, p * part_len, importance);
      weigh<part_len>(part, importance, mean_square, w);
      part_weights[p] = sum_of(w, part_len);
      lines[p] = fit_affine_part<part_len>(part, w, kSearches.weighted);
    } else {
      const Floats rms = kSearches.plain_by_size
                             ? all(0.0f)
                             : root(sum_of_squares(part, part_len) / static_cast<float>(part_len));
      for (size_t i = 0; i < part_len; ++i) {
        w[i] = kSearches.plain_by_size ? absolute(part[i]) : rms + absolute(part[i]);
      }
      lines[p] = fit_affine_part<part_len>(part, w, kSearches.plain);
    }
    scales[p] = lines[p].scale;
    mins[p] = lines[p].min;
  }
  Ints scale_codes[kParts];
  Ints min_codes[kParts];
  const Floats d =
      rounded_f16(weighted ? fit_positive<kParts>(scales, part_weights, max_part_scale, scale_codes)
                           : by_largest<kParts>(scales, max_part_scale, scale_codes));
  const Floats d_min =
      rounded_f16(weighted ? fit_positive<kParts>(mins, part_weights, max_part_scale, min_codes)
                           : by_largest<kParts>(mins, max_part_scale, min_codes));
  for (size_t g = 0; g < kLanes; ++g) {
    out[g].d = d[g];
    out[g].d_min = d_min[g];
  }
  for (size_t p = 0; p < kParts; ++p) {
    const Floats scale = d * to_floats(scale_codes[p]);
    const Floats min = d_min * to_floats(min_codes[p]);
    for (size_t g = 0; g < kLanes; ++g) {
      out[g].part_scales[p] = static_cast<uint8_t>(scale_codes[p][g]);
      out[g].part_mins[p] = static_cast<uint8_t>(min_codes[p][g]);
    }
    for (size_t i = p * part_len; i < (p + 1) * part_len; ++i) {
      const Ints searched = affine_code(x[i], lines[p], max_code);
      const Ints again = clamped(rounded((x[i] + min) / scale), 0, max_code);
      const Ints code = scale != 0.0f ? again : searched;
      for (size_t g = 0; g < kLanes; ++g) out[g].codes[i] = static_cast<uint8_t>(code[g]);
    }
  }
}

// Stores the codes of parts of 16, computed again from the rounded scales. If a scale is 0, stores
// the codes of the search. `searched` has codes plus n_steps; stored codes do not include n_steps.
BILLOW_LANES void put_symmetric(const Floats* x, const Floats& d, const Ints* part_scales,
                                const Ints* searched, int n_steps,
                                quant::SymmetricGroup* out) noexcept {
  for (size_t g = 0; g < kLanes; ++g) out[g].d = d[g];
  for (size_t p = 0; p < kMaxParts; ++p) {
    const Floats scale = d * to_floats(part_scales[p]);
    for (size_t g = 0; g < kLanes; ++g) {
      out[g].part_scales[p] = static_cast<int8_t>(part_scales[p][g]);
    }
    for (size_t i = 16 * p; i < 16 * (p + 1); ++i) {
      const Ints again = clamped(rounded(x[i] / scale), -n_steps, n_steps - 1);
      const Ints code = scale != 0.0f ? again : searched[i] - n_steps;
      for (size_t g = 0; g < kLanes; ++g) out[g].codes[i] = static_cast<int8_t>(code[g]);
    }
  }
}

void refined_lanes(const Tile& tile, const quant::SymmetricFormat& format,
                   quant::SymmetricGroup* out) noexcept {
  constexpr size_t kLen = quant::kSuperGroupLen;
  Floats x[kLen];
  load<kLen>(tile.x, kLen, 0, x);
  const bool weighted = tile.importance != nullptr;
  Floats scales[kMaxParts];
  Floats part_weights[kMaxParts];
  Ints codes[kLen];
  const Floats mean_square = 2.0f * sum_of_squares(x, kLen) / static_cast<float>(kLen);
  for (size_t p = 0; p < kMaxParts; ++p) {
    const Floats* part = x + 16 * p;
    if (!weighted) {
      scales[p] = fit_refined<16>(part, format.n_steps, codes + 16 * p);
      continue;
    }
    Floats importance[16];
    Floats w[16];
    load<16>(tile.importance, kLen, 16 * p, importance);
    weigh<16>(part, importance, mean_square, w);
    part_weights[p] = sum_of(w, 16);
    const SignedFit fit = fit_signed<16>(part, w, format.n_steps);
    scales[p] = fit.scale;
    for (size_t i = 0; i < 16; ++i) {
      codes[16 * p + i] = signed_code(part[i], fit, format.n_steps) + format.n_steps;
    }
  }
  Ints part_scales[kMaxParts];
  Floats d;
  const int steps = format.n_part_steps;
  if (weighted) {
    const SignedFit fit = fit_signed<kMaxParts>(scales, part_weights, steps);
    d = fit.scale;
    for (size_t p = 0; p < kMaxParts; ++p) part_scales[p] = signed_code(scales[p], fit, steps);
  } else {
    const Floats largest = extreme<kMaxParts>(scales);
    const Ints some = largest != 0.0f;
    const Floats inverse = -static_cast<float>(steps) / largest;
    d = some ? 1.0f / inverse : all(0.0f);
    for (size_t p = 0; p < kMaxParts; ++p) {
      const Ints code = clamped(rounded(inverse * scales[p]), -steps, steps - 1);
      part_scales[p] = some ? code : all(-steps);
    }
  }
  put_symmetric(x, rounded_f16(d), part_scales, codes, format.n_steps, out);
}

void signed_parts_lanes(const Tile& tile, const quant::SymmetricFormat& format,
                        quant::SymmetricGroup* out) noexcept {
  constexpr size_t kLen = quant::kSuperGroupLen;
  Floats x[kLen];
  load<kLen>(tile.x, kLen, 0, x);
  Floats scales[kMaxParts];
  Ints codes[kLen];
  for (size_t p = 0; p < kMaxParts; ++p) {
    const Floats* part = x + 16 * p;
    Floats w[16];
    if (tile.importance != nullptr) {
      load<16>(tile.importance, kLen, 16 * p, w);
    } else {
      for (size_t i = 0; i < 16; ++i) w[i] = part[i] * part[i];
    }
    const SignedFit fit = fit_signed<16>(part, w, format.n_steps);
    scales[p] = fit.scale;
    for (size_t i = 0; i < 16; ++i) {
      codes[16 * p + i] = signed_code(part[i], fit, format.n_steps) + format.n_steps;
    }
  }
  const Floats largest = extreme<kMaxParts>(scales);
  const Ints zero = absolute(largest) < kNothing;
  const Floats inverse = -static_cast<float>(format.n_part_steps) / largest;
  const Floats d = zero ? all(0.0f) : 1.0f / inverse;
  Ints part_scales[kMaxParts];
  for (size_t p = 0; p < kMaxParts; ++p) {
    const Ints code = rounded(inverse * scales[p]);
    const int max = format.n_part_steps - 1;
    part_scales[p] = zero ? all(0) : (code > max ? all(max) : code);
  }
  for (Ints& code : codes) code = zero ? all(0) : code;
  put_symmetric(x, rounded_f16(d), part_scales, codes, format.n_steps, out);
}

// Computes the weights of a part of 32 elements in groups of group_len.
BILLOW_LANES void weigh_for_codebook(const Tile& tile, const Floats* part, const Floats& sum,
                                     size_t group_len, size_t begin, Floats* w) noexcept {
  if (tile.importance == nullptr) {
    for (size_t i = 0; i < 32; ++i) w[i] = part[i] * part[i];
    return;
  }
  Floats importance[32];
  load<32>(tile.importance, group_len, begin, importance);
  weigh<32>(part, importance, sum * (2.0f / static_cast<float>(group_len)), w);
}

void codebook_lanes(const Tile& tile, const int8_t* values, quant::SymmetricGroup* out) noexcept {
  constexpr size_t kLen = quant::kSuperGroupLen;
  constexpr size_t kParts = 8;
  constexpr int kSteps = 32;
  const CodebookLanes table(values);
  Floats x[kLen];
  load<kLen>(tile.x, kLen, 0, x);
  const Floats sum = sum_of_squares(x, kLen);
  Floats scales[kParts];
  for (size_t p = 0; p < kParts; ++p) {
    Floats w[32];
    weigh_for_codebook(tile, x + 32 * p, sum, kLen, 32 * p, w);
    scales[p] = fit_codebook_part<32>(x + 32 * p, w, table);
  }
  // Codes are chosen with the unrounded scale.
  const Floats d = -extreme<kParts>(scales) / static_cast<float>(kSteps);
  const Floats inverse = d != 0.0f ? 1.0f / d : all(0.0f);
  const Floats stored = rounded_f16(d);
  for (size_t g = 0; g < kLanes; ++g) out[g].d = stored[g];
  for (size_t p = 0; p < kParts; ++p) {
    const Ints part_scale = clamped(rounded(inverse * scales[p]), -kSteps, kSteps - 1);
    const Floats scale = d * to_floats(part_scale);
    const Floats part_inverse = scale != 0.0f ? 1.0f / scale : all(0.0f);
    for (size_t g = 0; g < kLanes; ++g) {
      out[g].part_scales[p] = static_cast<int8_t>(part_scale[g]);
    }
    for (size_t i = 32 * p; i < 32 * (p + 1); ++i) {
      const Ints code = table.nearest(part_inverse * x[i]);
      for (size_t g = 0; g < kLanes; ++g) out[g].codes[i] = static_cast<int8_t>(code[g]);
    }
  }
}

BILLOW_LANES void put_block(const Floats& scale, const Floats& min, BlockFit* out) noexcept {
  for (size_t g = 0; g < kLanes; ++g) {
    out[g].scale = scale[g];
    out[g].min = min[g];
  }
}

BILLOW_LANES void put_code(const Ints& code, size_t i, BlockFit* out) noexcept {
  for (size_t g = 0; g < kLanes; ++g) out[g].codes[i] = static_cast<uint8_t>(code[g]);
}

void codebook_block_lanes(const Tile& tile, const int8_t* values, BlockFit* out) noexcept {
  const CodebookLanes table(values);
  Floats x[32];
  Floats w[32];
  load<32>(tile.x, 32, 0, x);
  weigh_for_codebook(tile, x, sum_of_squares(x, 32), 32, 0, w);
  const Floats scale = fit_codebook_part<32>(x, w, table);
  const Floats inverse = scale != 0.0f ? 1.0f / scale : all(0.0f);
  put_block(scale, all(0.0f), out);
  for (size_t i = 0; i < 32; ++i) put_code(table.nearest(inverse * x[i]), i, out);
}

// Loads blocks of 32 and computes their weights with the mean square of the row.
BILLOW_LANES void load_block(const Tile& tile, Floats* x, Floats* w) noexcept {
  Floats importance[32];
  Floats mean_square;
  load<32>(tile.x, 32, 0, x);
  load<32>(tile.importance, 32, 0, importance);
  load<1>(tile.row_mean_squares, 1, 0, &mean_square);
  weigh<32>(x, importance, mean_square, w);
}

void signed_block_lanes(const Tile& tile, int n_steps, BlockFit* out) noexcept {
  Floats x[32];
  Floats w[32];
  load_block(tile, x, w);
  const SignedFit fit = fit_signed<32>(x, w, n_steps);
  put_block(fit.scale, all(0.0f), out);
  for (size_t i = 0; i < 32; ++i) put_code(signed_code(x[i], fit, n_steps) + n_steps, i, out);
}

void affine_block_lanes(const Tile& tile, int max_code, BlockFit* out) noexcept {
  Floats x[32];
  Floats w[32];
  load_block(tile, x, w);
  const AffineLine line = fit_affine_part<32>(x, w, weighted_search(max_code));
  put_block(line.scale, -line.min, out);
  for (size_t i = 0; i < 32; ++i) put_code(affine_code(x[i], line, max_code), i, out);
}

void positive_block_lanes(const Tile& tile, int max_code, float* scales) noexcept {
  Floats x[32];
  Floats w[32];
  Ints codes[32];
  load<32>(tile.x, 32, 0, x);
  load<32>(tile.importance, 32, 0, w);
  const Floats scale = fit_positive<32>(x, w, max_code, codes);
  for (size_t g = 0; g < kLanes; ++g) scales[g] = scale[g];
}

// ---- Whole tiles.

Tile from_group(const Tile& tile, size_t group, size_t group_len) noexcept {
  const auto advanced = [](const float* numbers, size_t n) {
    return numbers == nullptr ? nullptr : numbers + n;
  };
  return {tile.x + group * group_len, advanced(tile.importance, group * group_len),
          advanced(tile.row_mean_squares, group)};
}

template <size_t group_len, class Group, class Fit>
void for_lanes(const Tile& tile, Group* out, const Fit& fit) noexcept {
  for (size_t g = 0; g < kTileGroups; g += kLanes) fit(from_group(tile, g, group_len), out + g);
}

void affine(const Tile& tile, const quant::AffineFormat& format, quant::AffineGroup* out) noexcept {
  for_lanes<256>(tile, out, [&](const Tile& part, quant::AffineGroup* to) {
    if (format.max_code == 3) return affine_lanes<16, 3, 15>(part, to);
    if (format.max_code == 15) return affine_lanes<32, 15, 63>(part, to);
    return affine_lanes<32, 31, 63>(part, to);
  });
}

void refined(const Tile& tile, const quant::SymmetricFormat& format,
             quant::SymmetricGroup* out) noexcept {
  for_lanes<256>(tile, out, [&](const Tile& part, quant::SymmetricGroup* to) {
    refined_lanes(part, format, to);
  });
}

void signed_parts(const Tile& tile, const quant::SymmetricFormat& format,
                  quant::SymmetricGroup* out) noexcept {
  for_lanes<256>(tile, out, [&](const Tile& part, quant::SymmetricGroup* to) {
    signed_parts_lanes(part, format, to);
  });
}

void codebook(const Tile& tile, const int8_t* values, quant::SymmetricGroup* out) noexcept {
  for_lanes<256>(tile, out, [&](const Tile& part, quant::SymmetricGroup* to) {
    codebook_lanes(part, values, to);
  });
}

void codebook_block(const Tile& tile, const int8_t* values, BlockFit* out) noexcept {
  for_lanes<32>(tile, out,
                [&](const Tile& part, BlockFit* to) { codebook_block_lanes(part, values, to); });
}

void signed_block(const Tile& tile, int n_steps, BlockFit* out) noexcept {
  for_lanes<32>(tile, out,
                [&](const Tile& part, BlockFit* to) { signed_block_lanes(part, n_steps, to); });
}

void affine_block(const Tile& tile, int max_code, BlockFit* out) noexcept {
  for_lanes<32>(tile, out,
                [&](const Tile& part, BlockFit* to) { affine_block_lanes(part, max_code, to); });
}

void positive_block(const Tile& tile, int max_code, float* scales) noexcept {
  for_lanes<32>(tile, scales,
                [&](const Tile& part, float* to) { positive_block_lanes(part, max_code, to); });
}

}  // namespace
}  // namespace billow::quantize
