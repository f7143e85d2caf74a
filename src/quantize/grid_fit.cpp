#include "quantize/grid_fit.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <span>

#include "base/check.h"
#include "quant/grid.h"
#include "quant/grids.h"
#include "quant/half.h"
#include "quantize/fits/fits.h"
#include "quantize/grid_index.h"

namespace billow::quantize {
namespace {

using quant::GridGroup;
using quant::GridSigns;
using quant::kSuperGroupLen;
using quant::Type;
using Grid = quant::Grids<void>;

constexpr size_t kMaxPart = 32;
constexpr size_t kMaxEntries = 8;  // max entries of a part

// How elements are weighted without an importance.
enum class PlainWeight : uint8_t { kNone, kSquare, kSquareAndMean };

// Which entries are chosen again after the best scale is known.
enum class Redo : uint8_t { kAll, kOffGrid, kAllIfOneIsOffGrid };

// Parameters of an IQ2 or IQ3 format, whose elements have signs and levels.
struct SignedGrid {
  Type type;
  size_t level_bits;
  size_t part_len;
  GridSigns signs;
  PlainWeight plain;
  float mean_square_factor;  // factor of the mean of x^2 in the weights
  float nothing;             // a part whose elements are all below this is zero
  int n_trials;              // trial scales on each side of the first scale
  float step;
  bool starts_by_fit;  // begins with a fit of evenly spaced levels, not with the largest element
  Redo redo;
  float stored_scale;  // factor of the stored scale relative to the fitted scale
};

constexpr SignedGrid kSignedGrids[] = {
    {Type::kIQ2_XXS, 2, 32, GridSigns::kEven, PlainWeight::kNone, 1.0f, 1e-15f, 6, 0.1f, true,
     Redo::kAll, 1.0f},
    {Type::kIQ2_XS, 2, 16, GridSigns::kEven, PlainWeight::kNone, 1.0f, 1e-15f, 9, 0.1f, false,
     Redo::kOffGrid, 1.0f},
    {Type::kIQ2_S, 2, 16, GridSigns::kFree, PlainWeight::kSquareAndMean, 2.0f, 1e-8f, 9, 0.1f,
     false, Redo::kOffGrid, 0.9875f},
    {Type::kIQ3_XXS, 3, 32, GridSigns::kEven, PlainWeight::kSquare, 2.0f, 1e-8f, 15, 0.2f, false,
     Redo::kOffGrid, 1.0125f},
    {Type::kIQ3_S, 3, 32, GridSigns::kFree, PlainWeight::kSquare, 2.0f,
     std::numeric_limits<float>::denorm_min(), 9, 0.2f, false, Redo::kAllIfOneIsOffGrid, 1.033f},
};

// Returns the index of a grid, which is built at the first call.
template <Type type>
const GridIndex& built_once(std::span<const uint16_t> entries, size_t level_bits,
                            size_t n_distances) {
  static const GridIndex index(entries, level_bits, n_distances);
  return index;
}

const GridIndex& index_of(Type type) {
  switch (type) {
    case Type::kIQ2_XXS:
      return built_once<Type::kIQ2_XXS>(Grid::kIq2Xxs, 2, 2);
    case Type::kIQ2_XS:
      return built_once<Type::kIQ2_XS>(Grid::kIq2Xs, 2, 2);
    case Type::kIQ2_S:
      return built_once<Type::kIQ2_S>(Grid::kIq2S, 2, 1);
    case Type::kIQ3_XXS:
      return built_once<Type::kIQ3_XXS>(Grid::kIq3Xxs, 3, 2);
    case Type::kIQ3_S:
      return built_once<Type::kIQ3_S>(Grid::kIq3S, 3, 3);
    default:
      return built_once<Type::kIQ1_S>(Grid::kIq1, 2, 3);
  }
}

// Returns the nearest integer, half to even. Beyond 2^22 the result is arbitrary, but always the
// same.
int nearest(float x) noexcept {
  const auto bits = std::bit_cast<int32_t>(x + 12582912.0f);
  return (bits & 0x007FFFFF) - 0x00400000;
}

float rounded_f16(float x) noexcept { return quant::f16_to_f32(quant::f32_to_f16(x)); }

float sum_of_squares(const float* x) noexcept {
  float sum = 0.0f;
  for (size_t i = 0; i < kSuperGroupLen; ++i) sum += x[i] * x[i];
  return sum;
}

void weigh(const float* x, const float* importance, float mean_square, PlainWeight plain, size_t n,
           float* weights) noexcept {
  if (importance != nullptr) {
    for (size_t i = 0; i < n; ++i) {
      weights[i] = importance[i] * std::sqrt(mean_square + x[i] * x[i]);
    }
    return;
  }
  const float added = plain == PlainWeight::kSquareAndMean ? 0.25f * mean_square : 0.0f;
  for (size_t i = 0; i < n; ++i) weights[i] = added + x[i] * x[i];
}

// ---- IQ2 and IQ3.

struct Sums {
  float wqx = 0.0f;
  float wqq = 0.0f;
};

// A part of a group: magnitudes and signs of its elements. Chooses grid entries for them.
class Part {
 public:
  Part(const SignedGrid& format, const GridIndex& index, const float* x,
       const float* weights) noexcept
      : format_(format), index_(index), weights_(weights) {
    for (size_t i = 0; i < format.part_len; ++i) roots_[i] = std::sqrt(weights[i]);
    for (size_t at = 0; at < format.part_len; at += 8) take_signs(x, at);
  }

  size_t n_entries() const noexcept { return format_.part_len / entry_len(); }
  float magnitude(size_t i) const noexcept { return magnitudes_[i]; }
  const float* magnitudes() const noexcept { return magnitudes_; }
  uint8_t signs(size_t stretch) const noexcept { return signs_[stretch]; }
  void flip_signs() noexcept {
    for (uint8_t& signs : signs_) signs = static_cast<uint8_t>(~signs);
  }

  float largest() const noexcept {
    return *std::max_element(magnitudes_, magnitudes_ + format_.part_len);
  }

  struct Choice {
    uint16_t entries[kMaxEntries] = {};  // levels
    bool on_grid[kMaxEntries] = {};
  };

  // Chooses entry number e at this scale: the nearest levels, or the best neighbour if the grid
  // does not have these levels.
  void choose(size_t e, float inverse, float scale, Choice& choice) const noexcept {
    const int max = format_.level_bits == 2 ? 2 : 7;
    unsigned levels = 0;
    for (size_t i = 0; i < entry_len(); ++i) {
      const int level = nearest(0.5f * (inverse * magnitudes_[e * entry_len() + i] - 1.0f));
      levels |= static_cast<unsigned>(std::clamp(level, 0, max)) << (i * format_.level_bits);
    }
    choice.entries[e] = static_cast<uint16_t>(levels);
    choice.on_grid[e] = index_.index_of(choice.entries[e]) >= 0;
    if (!choice.on_grid[e]) choice.entries[e] = best_neighbour(e, choice.entries[e], scale);
  }

  Sums sums(const Choice& choice) const noexcept {
    Sums sums;
    for (size_t i = 0; i < format_.part_len; ++i) {
      const uint16_t entry = choice.entries[i / entry_len()];
      const unsigned level = quant::level_of(entry, i % entry_len(), format_.level_bits);
      const auto q = static_cast<float>(2 * level + 1);
      sums.wqx += weights_[i] * magnitudes_[i] * q;
      sums.wqq += weights_[i] * q * q;
    }
    return sums;
  }

 private:
  size_t entry_len() const noexcept { return format_.level_bits == 2 ? 8 : 4; }

  // Splits 8 elements into magnitudes and signs. If an odd number is negative and the format needs
  // an even number, the element that matters least changes its sign.
  void take_signs(const float* x, size_t at) noexcept {
    unsigned signs = 0;
    for (size_t i = 0; i < 8; ++i) {
      const bool negative = !(x[at + i] >= 0.0f);
      magnitudes_[at + i] = negative ? -x[at + i] : x[at + i];
      signs |= (negative ? 1u : 0u) << i;
    }
    if (format_.signs == GridSigns::kEven && std::popcount(signs) % 2 == 1) {
      const auto cost = [&](size_t i) { return weights_[at + i] * x[at + i] * x[at + i]; };
      size_t min = 0;
      for (size_t i = 1; i < 8; ++i) {
        if (cost(i) < cost(min)) min = i;
      }
      magnitudes_[at + min] = -magnitudes_[at + min];
      signs ^= 1u << min;
    }
    signs_[at / 8] = static_cast<uint8_t>(signs);
  }

  // Returns the neighbour with the smallest error. The errors of all levels of all elements are
  // computed once. The error of a neighbour is a sum of them.
  uint16_t best_neighbour(size_t e, uint16_t levels, float scale) const noexcept {
    const size_t n_levels = size_t{1} << format_.level_bits;
    const unsigned mask = static_cast<unsigned>(n_levels) - 1;
    float errors[32];
    for (size_t i = 0; i < entry_len(); ++i) {
      const float x = magnitudes_[e * entry_len() + i];
      const float weight = roots_[e * entry_len() + i];
      for (size_t level = 0; level < n_levels; ++level) {
        const float off = scale * static_cast<float>(2 * level + 1) - x;
        errors[i * n_levels + level] = weight * off * off;
      }
    }
    const std::span<const uint16_t> candidates = index_.neighbours(levels);
    uint16_t best = candidates[0];
    float best_error = std::numeric_limits<float>::max();
    for (const uint16_t candidate : candidates) {
      float error = errors[candidate & mask];
      for (size_t i = 1; i < entry_len(); ++i) {
        error += errors[i * n_levels + ((unsigned{candidate} >> (i * format_.level_bits)) & mask)];
      }
      if (error < best_error) {
        best_error = error;
        best = candidate;
      }
    }
    return best;
  }

  const SignedGrid& format_;
  const GridIndex& index_;
  const float* weights_;
  float magnitudes_[kMaxPart];  // less than 0 if a sign had to change
  float roots_[kMaxPart];  // roots of the weights; they weight errors in the choice of neighbours
  uint8_t signs_[4] = {};
};

// Returns the magnitude that the middle trial maps to the highest level; 0 or less: the part is
// zero.
float first_scale(const SignedGrid& format, const Part& part, float fitted) noexcept {
  return format.starts_by_fit ? fitted * 3.0f : part.largest();
}

float fit_part(const SignedGrid& format, Part& part, float fitted, Part::Choice& best) noexcept {
  if (part.largest() < format.nothing) return 0.0f;
  const float reach = first_scale(format, part, fitted);
  if (!(reach > 0.0f)) return 0.0f;
  const float highest = format.level_bits == 2 ? 5.0f : 15.0f;
  float scale = format.starts_by_fit ? fitted : reach / highest;
  float gain = 0.0f;
  best = {};
  std::ranges::fill(best.on_grid, format.redo != Redo::kAllIfOneIsOffGrid);
  for (int trial = -format.n_trials; trial <= format.n_trials; ++trial) {
    const float inverse = (highest + static_cast<float>(trial) * format.step) / reach;
    Part::Choice choice;
    for (size_t e = 0; e < part.n_entries(); ++e) part.choose(e, inverse, 1.0f / inverse, choice);
    const Sums sums = part.sums(choice);
    if (sums.wqq > 0.0f && sums.wqx * sums.wqx > gain * sums.wqq) {
      scale = sums.wqx / sums.wqq;
      gain = scale * sums.wqx;
      best = choice;
    }
  }
  const size_t n_entries = part.n_entries();
  const bool all_on_grid = std::all_of(best.on_grid, best.on_grid + n_entries, std::identity());
  if (scale > 0.0f && (format.redo == Redo::kAll || !all_on_grid)) {
    const float inverse = 1.0f / scale;
    const Part::Choice found = best;
    for (size_t e = 0; e < n_entries; ++e) {
      if (format.redo == Redo::kOffGrid && found.on_grid[e]) continue;
      part.choose(e, inverse, scale, best);
    }
    const Sums sums = part.sums(best);
    if (sums.wqq > 0.0f) scale = sums.wqx / sums.wqq;
  }
  if (scale < 0.0f) {
    part.flip_signs();
    return -scale;
  }
  return scale;
}

GridGroup fit_signed_grid(const SignedGrid& format, const float* x,
                          const float* importance) noexcept {
  const GridIndex& index = index_of(format.type);
  const size_t n_parts = kSuperGroupLen / format.part_len;
  const size_t n_stretches = format.part_len / 8;
  const float mean_square =
      format.mean_square_factor * sum_of_squares(x) / static_cast<float>(kSuperGroupLen);
  float weights[kSuperGroupLen];
  weigh(x, importance, mean_square, format.plain, kSuperGroupLen, weights);
  float fitted[kTileGroups] = {};
  std::array<float, kTileGroups> scales = {};
  GridGroup group = {};
  const auto part_at = [&](size_t p) {
    return Part(format, index, x + p * format.part_len, weights + p * format.part_len);
  };
  if (format.starts_by_fit) {
    float magnitudes[kTileGroups * kMaxPart] = {};
    float padded[kTileGroups * kMaxPart] = {};
    std::copy_n(weights, kSuperGroupLen, padded);
    for (size_t p = 0; p < n_parts; ++p) {
      std::copy_n(part_at(p).magnitudes(), format.part_len, magnitudes + p * format.part_len);
    }
    fits().positive_block({magnitudes, padded, nullptr}, 4, fitted);
  }
  for (size_t p = 0; p < n_parts; ++p) {
    Part part = part_at(p);
    Part::Choice choice;
    scales[p] = fit_part(format, part, fitted[p], choice);
    if (scales[p] == 0.0f) continue;
    for (size_t e = 0; e < part.n_entries(); ++e) {
      group.indices[p * part.n_entries() + e] =
          static_cast<uint16_t>(index.index_of(choice.entries[e]));
    }
    for (size_t s = 0; s < n_stretches; ++s) group.signs[p * n_stretches + s] = part.signs(s);
  }
  const float largest = *std::ranges::max_element(scales);
  if (largest == 0.0f) return {};
  const float d = largest / 31.0f;
  const float inverse = 1.0f / d;
  group.d = rounded_f16(d * format.stored_scale);
  for (size_t p = 0; p < n_parts; ++p) {
    const int code = nearest(0.5f * (inverse * scales[p] - 1.0f));
    group.part_scales[p] = static_cast<uint8_t>(std::clamp(code, 0, 15));
  }
  return group;
}

// ---- IQ1: three levels with a small shift up or down.

constexpr float kShift = 0.125f;
constexpr std::array<float, 3> kLevels[2] = {{-1.0f + kShift, kShift, 1.0f + kShift},
                                             {-1.0f - kShift, -kShift, 1.0f - kShift}};

// The best split so far: where the sorted elements of a part are cut into three levels, and how
// each half is shifted.
struct Split {
  float scale;
  float gain = -std::numeric_limits<float>::max();
  size_t first = 0;
  size_t second = 0;
  std::array<bool, 2> down = {};  // shift of each half; both halves of IQ1_S have the same shift
  bool found = false;

  void offer(size_t i, size_t j, std::array<bool, 2> shifts, const Sums& sums) noexcept {
    if (!(sums.wqq > 0.0f && sums.wqx * sums.wqx > gain * sums.wqq)) return;
    scale = sums.wqx / sums.wqq;
    gain = scale * sums.wqx;
    first = i;
    second = j;
    down = shifts;
    found = true;
  }
};

// Prefix sums over the sorted elements.
using Prefix = std::array<float, kMaxPart + 1>;

Split best_split_of_part(const Prefix& wx, const Prefix& w, size_t n, float largest) noexcept {
  Split best = {.scale = largest};
  for (size_t i = 0; i <= n; ++i) {
    for (size_t j = i; j <= n; ++j) {
      for (const bool down : {false, true}) {
        const auto& level = kLevels[down ? 1 : 0];
        const Sums sums = {
            (wx[i] - wx[0]) * level[0] + (wx[j] - wx[i]) * level[1] + (wx[n] - wx[j]) * level[2],
            (w[i] - w[0]) * level[0] * level[0] + (w[j] - w[i]) * level[1] * level[1] +
                (w[n] - w[j]) * level[2] * level[2]};
        best.offer(i, j, {down, down}, sums);
      }
    }
  }
  return best;
}

// The halves of the part can have different shifts, so each half has its own sums.
Split best_split_of_halves(const Prefix* wx, const Prefix* w, size_t n, float largest) noexcept {
  Split best = {.scale = largest};
  float first_step[2];   // added to a sum of squares by an element of level 0 instead of 1
  float second_step[2];  // the same for level 1 instead of 2
  for (size_t s = 0; s < 2; ++s) {
    const auto& level = kLevels[s];
    first_step[s] = level[0] * level[0] - level[1] * level[1];
    second_step[s] = level[1] * level[1] - level[2] * level[2];
  }
  for (size_t i = 0; i <= n; ++i) {
    for (size_t j = i; j <= n; ++j) {
      Sums halves[2][2];  // of each half (first index), with each shift (second index)
      for (size_t h = 0; h < 2; ++h) {
        const float below = wx[h][i] + wx[h][j];
        for (size_t s = 0; s < 2; ++s) {
          const float top = kLevels[s][2];
          halves[h][s] = {wx[h][n] * top - below,
                          w[h][n] * top * top + w[h][i] * first_step[s] + w[h][j] * second_step[s]};
        }
      }
      for (size_t k = 0; k < 4; ++k) {
        const Sums& a = halves[0][k / 2];
        const Sums& b = halves[1][k % 2];
        best.offer(i, j, {k / 2 == 1, k % 2 == 1}, {a.wqx + b.wqx, a.wqq + b.wqq});
      }
    }
  }
  return best;
}

struct ShiftedGrid {
  size_t part_len;
  float nothing;
  bool halves;  // each half of a part has its own shift
};
constexpr ShiftedGrid kIq1S = {32, 1e-12f, false};
constexpr ShiftedGrid kIq1M = {16, 1e-7f, true};

struct ShiftedPart {
  float scale = 0.0f;
  std::array<uint16_t, 4> entries = {};  // indices
  std::array<bool, 2> down = {};
};

Split best_split(const ShiftedGrid& format, const float* x, const float* weights,
                 std::span<const uint8_t> order, float largest) noexcept {
  Prefix wx[2] = {};
  Prefix w[2] = {};
  for (size_t j = 0; j < order.size(); ++j) {
    const size_t i = order[j];
    const size_t half = format.halves && i >= format.part_len / 2 ? 1 : 0;
    wx[half][j + 1] = wx[half][j] + weights[i] * x[i];
    w[half][j + 1] = w[half][j] + weights[i];
    wx[1 - half][j + 1] = wx[1 - half][j];
    w[1 - half][j + 1] = w[1 - half][j];
  }
  return format.halves ? best_split_of_halves(wx, w, order.size(), largest)
                       : best_split_of_part(wx[0], w[0], order.size(), largest);
}

// Returns the entry nearest to 8 elements, among the neighbours of `levels`.
uint16_t best_shifted_neighbour(const GridIndex& index, uint16_t levels, const float* x,
                                const float* weights, float scale,
                                const std::array<float, 3>& values) noexcept {
  float errors[8][3];
  for (size_t i = 0; i < 8; ++i) {
    for (size_t level = 0; level < 3; ++level) {
      const float off = scale * values[level] - x[i];
      errors[i][level] = weights[i] * off * off;
    }
  }
  const std::span<const uint16_t> candidates = index.neighbours(levels);
  uint16_t best = candidates[0];
  float best_error = std::numeric_limits<float>::max();
  for (const uint16_t candidate : candidates) {
    float error = 0.0f;
    for (size_t i = 0; i < 8; ++i) error += errors[i][quant::level_of(candidate, i, 2)];
    if (error < best_error) {
      best_error = error;
      best = candidate;
    }
  }
  return best;
}

ShiftedPart fit_shifted_part(const ShiftedGrid& format, const float* x,
                             const float* weights) noexcept {
  const GridIndex& index = index_of(Type::kIQ1_S);
  const size_t n = format.part_len;
  float largest = 0.0f;
  for (size_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(x[i]));
  if (largest < format.nothing) return {};
  uint8_t order[kMaxPart];
  std::iota(order, order + n, uint8_t{0});
  // An insertion sort, because std::sort requires an order and NaN has none.
  for (size_t i = 1; i < n; ++i) {
    const uint8_t own = order[i];
    size_t at = i;
    for (; at > 0 && x[own] < x[order[at - 1]]; --at) order[at] = order[at - 1];
    order[at] = own;
  }
  Split split = best_split(format, x, weights, std::span(order, n), largest);
  if (!split.found) return {};
  std::array<unsigned, kMaxPart> levels;
  for (size_t j = 0; j < n; ++j) {
    levels[order[j]] = j < split.first ? 0 : (j < split.second ? 1 : 2);
  }
  if (split.scale < 0.0f) {
    for (size_t i = 0; i < n; ++i) levels[i] = 2 - levels[i];
    split.scale = -split.scale;
    for (bool& down : split.down) down = !down;
  }
  ShiftedPart part = {.scale = split.scale, .down = split.down};
  const auto values_of = [&](size_t stretch) -> const std::array<float, 3>& {
    const bool second = format.halves && stretch == 1;
    return kLevels[split.down[second ? 1 : 0] ? 1 : 0];
  };
  bool all_on_grid = true;
  std::array<uint16_t, 4> chosen = {};
  for (size_t s = 0; s < n / 8; ++s) {
    unsigned combination = 0;
    for (size_t i = 0; i < 8; ++i) combination |= levels[8 * s + i] << (2 * i);
    chosen[s] = static_cast<uint16_t>(combination);
    if (index.index_of(chosen[s]) < 0) {
      all_on_grid = false;
      chosen[s] = best_shifted_neighbour(index, chosen[s], x + 8 * s, weights + 8 * s, split.scale,
                                         values_of(s));
    }
    part.entries[s] = static_cast<uint16_t>(index.index_of(chosen[s]));
  }
  if (all_on_grid) return part;
  Sums sums;
  for (size_t i = 0; i < n; ++i) {
    const float q = values_of(i / 8)[quant::level_of(chosen[i / 8], i % 8, 2)];
    sums.wqx += weights[i] * q * x[i];
    sums.wqq += weights[i] * q * q;
  }
  if (sums.wqx > 0.0f && sums.wqq > 0.0f) part.scale = sums.wqx / sums.wqq;
  return part;
}

GridGroup fit_shifted_grid(const ShiftedGrid& format, const float* x,
                           const float* importance) noexcept {
  const size_t n_parts = kSuperGroupLen / format.part_len;
  const size_t n_stretches = format.part_len / 8;
  const float mean_square = 2.0f * sum_of_squares(x) / static_cast<float>(kSuperGroupLen);
  float weights[kSuperGroupLen];
  weigh(x, importance, mean_square, PlainWeight::kSquare, kSuperGroupLen, weights);
  std::array<ShiftedPart, 16> parts;
  float largest = 0.0f;
  for (size_t p = 0; p < n_parts; ++p) {
    parts[p] = fit_shifted_part(format, x + p * format.part_len, weights + p * format.part_len);
    largest = std::max(largest, parts[p].scale);
  }
  if (largest == 0.0f) return {};
  GridGroup group = {};
  float d = largest / 15.0f;
  const float inverse = 1.0f / d;
  Sums sums;
  for (size_t p = 0; p < n_parts; ++p) {
    const ShiftedPart& part = parts[p];
    const int code = std::clamp(nearest(0.5f * (inverse * part.scale - 1.0f)), 0, 7);
    group.part_scales[p] = static_cast<uint8_t>(code);
    for (size_t s = 0; s < n_stretches; ++s) {
      const bool down = part.down[format.halves ? s : 0];
      group.indices[p * n_stretches + s] = part.entries[s];
      group.second[p * n_stretches + s] = down;
      for (size_t i = 0; i < 8; ++i) {
        const size_t at = p * format.part_len + 8 * s + i;
        const unsigned level = quant::level_of(Grid::kIq1[part.entries[s]], i, 2);
        const float q = kLevels[down ? 1 : 0][level] * static_cast<float>(2 * code + 1);
        sums.wqx += weights[at] * q * x[at];
        sums.wqq += weights[at] * q * q;
      }
    }
  }
  if (!format.halves) {
    group.d = rounded_f16(d * 1.125f);
    return group;
  }
  if (sums.wqq > 0.0f) d = sums.wqx / sums.wqq;
  group.d = rounded_f16(d * 1.1125f);
  return group;
}

}  // namespace

GridGroup fit_grid_group(Type type, const float* x, const float* importance) noexcept {
  if (type == Type::kIQ1_S) return fit_shifted_grid(kIq1S, x, importance);
  if (type == Type::kIQ1_M) return fit_shifted_grid(kIq1M, x, importance);
  const auto* format = std::ranges::find(kSignedGrids, type, &SignedGrid::type);
  BILLOW_CHECK(format != std::end(kSignedGrids));
  return fit_signed_grid(*format, x, importance);
}

}  // namespace billow::quantize
