#include "quant/group_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>

#include "quant/grid.h"
#include "quant/packed.h"
#include "quant/packing.h"

namespace billow::quant {
namespace {

// A part whose elements are below this is zero. The square of a larger element is at least the
// smallest normal float times the number of elements of a group.
constexpr float kNothing = 1e-15f;

using Weights = std::array<float, kSuperGroupLen>;

float rounded_f16(float value) noexcept { return f16_to_f32(f32_to_f16(value)); }

// Larger elements have larger weights, because they affect products more. The part's rms keeps
// small elements relevant.
void weigh(std::span<const float> x, float* weights) noexcept {
  double sum = 0.0;
  for (float value : x) sum += static_cast<double>(value) * static_cast<double>(value);
  const float rms = static_cast<float>(std::sqrt(sum / static_cast<double>(x.size())));
  for (size_t i = 0; i < x.size(); ++i) weights[i] = rms + std::fabs(x[i]);
}

struct Line {
  float scale;
  float min;
};

// The best scale and minimum (0 or more) for given codes, in x ~ scale * code - min. `gain` is the
// part of the weighted sum of squares that they explain.
struct LineFit {
  Line line;
  double gain;
};

LineFit fit_line(std::span<const float> x, const float* weights, float inverse, float min,
                 int max_code) noexcept {
  double w = 0, wq = 0, wqq = 0, wx = 0, wqx = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double code = rounded_code((x[i] + min) * inverse, 0, max_code);
    const double weight = static_cast<double>(weights[i]);
    const double value = static_cast<double>(x[i]);
    w += weight;
    wq += weight * code;
    wqq += weight * code * code;
    wx += weight * value;
    wqx += weight * code * value;
  }
  const double determinant = w * wqq - wq * wq;
  double scale = determinant > 0 ? (w * wqx - wq * wx) / determinant : 0.0;
  double fitted_min = determinant > 0 ? (wq * wqx - wqq * wx) / determinant : 0.0;
  if (fitted_min <= 0 || scale <= 0) {
    fitted_min = 0;
    scale = wqq > 0 ? wqx / wqq : 0.0;
  }
  const double gain = 2 * (scale * wqx - fitted_min * wx) - scale * scale * wqq +
                      2 * scale * fitted_min * wq - fitted_min * fitted_min * w;
  return {{static_cast<float>(scale), static_cast<float>(fitted_min)}, gain};
}

// Tries steps slightly finer and coarser than the range of x requires. Then improves codes and line
// of the best trial in turn.
Line best_line(std::span<const float> x, const float* weights, int max_code) noexcept {
  const float min = std::max(0.0f, -*std::min_element(x.begin(), x.end()));
  const float range = *std::max_element(x.begin(), x.end()) + min;
  if (!(range > kNothing)) return {0.0f, min};
  LineFit best = {{range / static_cast<float>(max_code), min}, -1e300};
  for (int trial = -10; trial <= 10; ++trial) {
    const float inverse = (static_cast<float>(max_code) + 0.1f * static_cast<float>(trial)) / range;
    const LineFit fit = fit_line(x, weights, inverse, min, max_code);
    if (fit.gain > best.gain) best = fit;
  }
  for (int round = 0; round < 4 && best.line.scale > 0.0f; ++round) {
    const LineFit fit = fit_line(x, weights, 1.0f / best.line.scale, best.line.min, max_code);
    if (!(fit.gain > best.gain)) break;
    best = fit;
  }
  return best.line;
}

// The codes, and the integer that multiplies the scale for each code. lowest() is the level of the
// max magnitude.
class UniformLevels {
 public:
  explicit UniformLevels(int n_steps) noexcept : n_steps_(n_steps) {}
  int nearest(float x) const noexcept { return rounded_code(x, -n_steps_, n_steps_ - 1); }
  float value(int code) const noexcept { return static_cast<float>(code); }
  float lowest() const noexcept { return static_cast<float>(-n_steps_); }
  static constexpr float kTrialStep = 0.1f;

 private:
  int n_steps_;
};

class CodebookLevels {
 public:
  explicit CodebookLevels(const int8_t* values) noexcept : values_(values) {}
  int nearest(float x) const noexcept { return nearest_entry(values_, x); }
  float value(int code) const noexcept { return static_cast<float>(values_[code]); }
  float lowest() const noexcept { return static_cast<float>(values_[0]); }
  static constexpr float kTrialStep = 1.0f;

 private:
  const int8_t* values_;
};

struct ScaleFit {
  float scale;
  double gain;  // the part of the weighted sum of squares that scale * level explains
};

// Returns the scale that best fits the levels nearest to x * inverse.
template <class Levels>
ScaleFit fit_scale(std::span<const float> x, const float* weights, float inverse,
                   const Levels& levels) noexcept {
  double wqx = 0, wqq = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double level = static_cast<double>(levels.value(levels.nearest(x[i] * inverse)));
    const double weighted = static_cast<double>(weights[i]) * level;
    wqx += weighted * static_cast<double>(x[i]);
    wqq += weighted * level;
  }
  if (!(wqq > 0)) return {0.0f, 0.0};
  return {static_cast<float>(wqx / wqq), wqx / wqq * wqx};
}

template <class Levels>
float best_scale(std::span<const float> x, const float* weights, const Levels& levels) noexcept {
  const float extreme = extreme_of(x.data(), x.size());
  if (!(std::fabs(extreme) > kNothing)) return 0.0f;
  ScaleFit best = {0.0f, 0.0};
  for (int trial = -9; trial <= 9; ++trial) {
    const float lowest = levels.lowest() + Levels::kTrialStep * static_cast<float>(trial);
    const ScaleFit fit = fit_scale(x, weights, lowest / extreme, levels);
    if (fit.gain > best.gain) best = fit;
  }
  for (int round = 0; round < 4 && best.scale != 0.0f; ++round) {
    const ScaleFit fit = fit_scale(x, weights, 1.0f / best.scale, levels);
    if (!(fit.gain > best.gain)) break;
    best = fit;
  }
  return best.scale;
}

template <class Levels>
SymmetricGroup fit_levels(const float* x, size_t part_len, int n_part_steps,
                          const Levels& levels) noexcept {
  Weights weights;
  std::array<float, 16> scales = {};
  const size_t n_parts = kSuperGroupLen / part_len;
  for (size_t p = 0; p < n_parts; ++p) {
    const std::span<const float> part(x + p * part_len, part_len);
    weigh(part, weights.data() + p * part_len);
    scales[p] = best_scale(part, weights.data() + p * part_len, levels);
  }
  SymmetricGroup group = {};
  group.d =
      rounded_f16(extreme_of(scales.data(), scales.size()) / static_cast<float>(-n_part_steps));
  const float inverse = reciprocal_or_zero(group.d);
  for (size_t p = 0; p < n_parts; ++p) {
    group.part_scales[p] =
        static_cast<int8_t>(rounded_code(scales[p] * inverse, -n_part_steps, n_part_steps - 1));
  }
  for (size_t i = 0; i < kSuperGroupLen; ++i) {
    const size_t p = i / part_len;
    const float scale = group.d * static_cast<float>(group.part_scales[p]);
    group.codes[i] = static_cast<int8_t>(levels.nearest(x[i] * reciprocal_or_zero(scale)));
  }
  return group;
}

// The entries of a grid in groups with the same lower half of bits. A group keeps the grid's order.
class GridGroups {
 public:
  // An entry has two halves of `half_bits` bits, at most 8. A grid has at most 2048 entries.
  GridGroups(std::span<const uint16_t> entries, unsigned half_bits) noexcept {
    const unsigned mask = (1u << half_bits) - 1u;
    for (const uint16_t entry : entries) ++begins_[(entry & mask) + 1];
    for (size_t half = 0; half < 256; ++half) begins_[half + 1] += begins_[half];
    std::array<uint16_t, 256> next;
    std::copy_n(begins_.begin(), next.size(), next.begin());
    for (size_t e = 0; e < entries.size(); ++e) {
      members_[next[entries[e] & mask]++] = {static_cast<uint16_t>(e),
                                             static_cast<uint16_t>(entries[e] >> half_bits)};
    }
    for (size_t half = 0; half < 256; ++half) {
      if (!of(half).empty()) halves_[n_halves_++] = static_cast<uint8_t>(half);
    }
  }
  struct Member {
    uint16_t index;  // of the entry in the grid
    uint16_t upper;  // the upper half of its bits
  };
  std::span<const Member> of(size_t half) const noexcept {
    return {members_.data() + begins_[half], members_.data() + begins_[half + 1]};
  }
  // Lower halves with entries.
  std::span<const uint8_t> halves() const noexcept { return {halves_.data(), n_halves_}; }

 private:
  std::array<uint16_t, 257> begins_ = {};
  std::array<Member, 2048> members_;
  std::array<uint8_t, 256> halves_;
  size_t n_halves_ = 0;
};

// The distance of an entry from elements. It is the sum of two table entries: of the levels in the
// lower half of the entry's bits, and of those in the upper half.
class GridErrors {
 public:
  // An entry has 8 elements with level_bits == 2, and 4 with level_bits == 3.
  GridErrors(const float* targets, const int8_t* values, size_t level_bits) noexcept {
    const size_t n_half = level_bits == 2 ? 4 : 2;
    for (size_t half = 0; half < 2; ++half) {
      sum_up(targets + half * n_half, n_half, values, size_t{1} << level_bits, sums_[half]);
    }
  }
  struct Nearest {
    size_t index;
    float error;
  };
  // Returns the nearest entry, the first of equal ones. Skips a group whose lower half alone is too
  // far. Sums of floats are monotonic, so the result is that of a comparison with all entries.
  Nearest nearest(const GridGroups& groups) const noexcept {
    const float* lower = sums_[0];
    const auto nearer = [&](size_t a, size_t b) { return lower[a] < lower[b]; };
    const std::span<const uint8_t> halves = groups.halves();
    const size_t first = *std::min_element(halves.begin(), halves.end(), nearer);
    const float least_upper = *std::min_element(std::begin(sums_[1]), std::end(sums_[1]));
    Nearest best = {0, std::numeric_limits<float>::infinity()};
    compare(groups.of(first), lower[first], best);
    for (const size_t half : halves) {
      if (half == first || lower[half] + least_upper > best.error) continue;
      compare(groups.of(half), lower[half], best);
    }
    return best;
  }

 private:
  // sums[levels]: the sum of the squared errors of n elements. Adds one element after the other.
  static void sum_up(const float* targets, size_t n, const int8_t* values, size_t n_levels,
                     float* sums) noexcept {
    size_t n_sums = 1;
    sums[0] = 0.0f;
    for (size_t i = 0; i < n; ++i) {
      for (size_t level = n_levels; level-- > 0;) {  // the last level replaces the sums themselves
        const float error = targets[i] - static_cast<float>(values[level]);
        const float squared = error * error;
        for (size_t s = 0; s < n_sums; ++s) sums[level * n_sums + s] = sums[s] + squared;
      }
      n_sums *= n_levels;
    }
    std::fill(sums + n_sums, sums + 256, std::numeric_limits<float>::infinity());
  }
  void compare(std::span<const GridGroups::Member> members, float lower,
               Nearest& best) const noexcept {
    for (const GridGroups::Member& member : members) {
      const float error = lower + sums_[1][member.upper];
      if (error < best.error || (error == best.error && member.index < best.index)) {
        best = {member.index, error};
      }
    }
  }

  float sums_[2][256];
};

// The elements of a group and the entries that were chosen for them.
class GridSearch {
 public:
  GridSearch(const float* x, const GridFormat& format) noexcept
      : x_(x), format_(format), groups_(format.entries, format.level_bits == 2 ? 8 : 6) {
    for (size_t at = 0; at < kSuperGroupLen; at += 8) set_signs(at);
  }

  // Chooses the entries of n elements from `at` on, for this scale of the levels' values.
  void choose(size_t at, size_t n, float scale) noexcept {
    const float inverse = reciprocal_or_zero(scale);
    for (size_t begin = at; begin < at + n; begin += format_.choice_len) {
      float min = choose(begin, inverse, 0);
      if (format_.values[1] == nullptr) continue;
      const GridGroup first = group_;
      if (choose(begin, inverse, 1) >= min) group_ = first;
    }
  }

  // Returns the scale that best fits the chosen entries.
  ScaleFit fit(size_t at, size_t n, const float* weights) const noexcept {
    double wqx = 0, wqq = 0;
    for (size_t i = at; i < at + n; ++i) {
      const auto level = static_cast<double>(value(i));
      const double weighted = static_cast<double>(weights[i]) * level;
      wqx += weighted * static_cast<double>(x_[i]);
      wqq += weighted * level;
    }
    if (!(wqq > 0)) return {0.0f, 0.0};
    return {static_cast<float>(wqx / wqq), wqx / wqq * wqx};
  }

  GridGroup& group() noexcept { return group_; }

 private:
  size_t entry_len() const noexcept { return format_.level_bits == 2 ? 8 : 4; }

  bool negative(size_t i) const noexcept { return (group_.signs[i / 8] >> (i % 8) & 1) != 0; }

  // If an odd number of 8 elements is negative, the one of min magnitude changes its sign.
  void set_signs(size_t at) noexcept {
    if (format_.signs == GridSigns::kNone) return;
    size_t n_negative = 0;
    size_t min = at;
    for (size_t i = at; i < at + 8; ++i) {
      if (std::fabs(x_[i]) < std::fabs(x_[min])) min = i;
      if (!(x_[i] < 0.0f)) continue;
      ++n_negative;
      group_.signs[i / 8] |= static_cast<uint8_t>(1 << (i % 8));
    }
    if (format_.signs == GridSigns::kEven && n_negative % 2 == 1) {
      group_.signs[min / 8] ^= static_cast<uint8_t>(1 << (min % 8));
    }
  }

  float value(size_t i) const noexcept {
    const uint16_t entry = format_.entries[group_.indices[i / entry_len()]];
    const unsigned level = level_of(entry, i % entry_len(), format_.level_bits);
    const int size = int{format_.values[group_.second[i / 8] ? 1 : 0][level]};
    return static_cast<float>(negative(i) ? -size : size);
  }

  // The same for elements that use the same values; returns the error.
  float choose(size_t begin, float inverse, size_t which) noexcept {
    float sum = 0.0f;
    for (size_t at = begin; at < begin + format_.choice_len; at += entry_len()) {
      float targets[8];
      for (size_t i = 0; i < entry_len(); ++i) {
        targets[i] = (negative(at + i) ? -x_[at + i] : x_[at + i]) * inverse;
      }
      const GridErrors errors(targets, format_.values[which], format_.level_bits);
      const GridErrors::Nearest best = errors.nearest(groups_);
      group_.indices[at / entry_len()] = static_cast<uint16_t>(best.index);
      group_.second[at / 8] = which == 1;
      sum += best.error;
    }
    return sum;
  }

  const float* x_;
  const GridFormat& format_;
  GridGroups groups_;
  GridGroup group_ = {};
};

// Tries scales that map the max magnitude to one of the levels, and some scales below the last one.
float best_grid_scale(const float* x, const float* weights, size_t at, const GridFormat& format,
                      GridSearch& search) noexcept {
  const float largest = std::fabs(extreme_of(x + at, format.part_len));
  if (!(largest > kNothing)) return 0.0f;
  const size_t n_levels = format.level_bits == 2 ? 3 : 8;
  ScaleFit best = {0.0f, 0.0};
  const auto attempt = [&](float scale) {
    search.choose(at, format.part_len, scale);
    const ScaleFit fit = search.fit(at, format.part_len, weights);
    if (fit.gain > best.gain) best = fit;
  };
  for (size_t level = 0; level < n_levels; ++level) {
    attempt(largest / std::fabs(static_cast<float>(format.values[0][level])));
  }
  const float highest = static_cast<float>(format.values[0][n_levels - 1]);
  for (const float beyond : {1.1f, 1.2f, 1.35f}) attempt(largest / (highest * beyond));
  return best.scale;
}

}  // namespace

AffineGroup fit_affine(const float* x, const AffineFormat& format) noexcept {
  const size_t n_parts = kSuperGroupLen / format.part_len;
  std::array<Line, 16> lines = {};
  Weights weights;
  float max_scale = 0.0f;
  float max_min = 0.0f;
  for (size_t p = 0; p < n_parts; ++p) {
    const std::span<const float> part(x + p * format.part_len, format.part_len);
    weigh(part, weights.data());
    lines[p] = best_line(part, weights.data(), format.max_code);
    max_scale = std::max(max_scale, lines[p].scale);
    max_min = std::max(max_min, lines[p].min);
  }
  AffineGroup group = {};
  group.d = rounded_f16(max_scale / static_cast<float>(format.max_part_scale));
  group.d_min = rounded_f16(max_min / static_cast<float>(format.max_part_scale));
  const float inverse = reciprocal_or_zero(group.d);
  const float inverse_min = reciprocal_or_zero(group.d_min);
  for (size_t p = 0; p < n_parts; ++p) {
    group.part_scales[p] =
        static_cast<uint8_t>(rounded_code(lines[p].scale * inverse, 0, format.max_part_scale));
    group.part_mins[p] =
        static_cast<uint8_t>(rounded_code(lines[p].min * inverse_min, 0, format.max_part_scale));
  }
  for (size_t i = 0; i < kSuperGroupLen; ++i) {
    const size_t p = i / format.part_len;
    const float scale = group.d * static_cast<float>(group.part_scales[p]);
    const float min = group.d_min * static_cast<float>(group.part_mins[p]);
    group.codes[i] = static_cast<uint8_t>(
        rounded_code((x[i] + min) * reciprocal_or_zero(scale), 0, format.max_code));
  }
  return group;
}

SymmetricGroup fit_symmetric(const float* x, const SymmetricFormat& format) noexcept {
  return fit_levels(x, format.part_len, format.n_part_steps, UniformLevels(format.n_steps));
}

SymmetricGroup fit_codebook(const float* x, const int8_t* values) noexcept {
  return fit_levels(x, 32, 32, CodebookLevels(values));
}

GridGroup fit_grid(const float* x, const GridFormat& format) noexcept {
  const size_t n_parts = kSuperGroupLen / format.part_len;
  Weights weights;
  std::array<float, 16> scales = {};
  GridSearch search(x, format);
  float largest = 0.0f;
  for (size_t p = 0; p < n_parts; ++p) {
    const size_t at = p * format.part_len;
    weigh(std::span(x + at, format.part_len), weights.data() + at);
    scales[p] = best_grid_scale(x, weights.data(), at, format, search);
    largest = std::max(largest, scales[p]);
  }
  GridGroup& group = search.group();
  const float steps = static_cast<float>(2 * format.max_scale + 1);
  group.d = rounded_f16(largest / (steps * format.unit));
  const float step = group.d * format.unit;
  for (size_t p = 0; p < n_parts; ++p) {
    const float scale = scales[p] * reciprocal_or_zero(step);
    group.part_scales[p] =
        static_cast<uint8_t>(rounded_code((scale - 1.0f) / 2.0f, 0, format.max_scale));
    search.choose(p * format.part_len, format.part_len,
                  step * static_cast<float>(2 * group.part_scales[p] + 1));
  }
  return group;
}

uint8_t nearest_fp4_code(float x, float d) noexcept {
  uint8_t best = 0;
  float best_error = std::fabs(x);
  for (uint8_t code = 1; code < 16; ++code) {
    const float error = std::fabs(static_cast<float>(kFp4Values.values[code]) * d - x);
    if (error < best_error) {
      best = code;
      best_error = error;
    }
  }
  return best;
}

uint8_t nearest_entry(const int8_t* values, float x) noexcept {
  uint8_t best = 0;
  while (best < 15) {
    const float here = static_cast<float>(values[best]);
    const float next = static_cast<float>(values[best + 1]);
    if (!(x - here >= next - x)) break;
    ++best;
  }
  return best;
}

}  // namespace billow::quant
