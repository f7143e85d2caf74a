#include "quant/group_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "quant/grid.h"
#include "quant/grids.h"
#include "quant/packed.h"
#include "quant/packing.h"

namespace billow::quant {
namespace {

struct Grid {
  std::string name;
  GridFormat format;
};

std::vector<Grid> grids() {
  static constexpr int8_t kTwoBits[] = {8, 25, 43, 0};
  static constexpr int8_t kThreeBits[] = {1, 3, 5, 7, 9, 11, 13, 15};
  static constexpr int8_t kTernary[] = {-7, 1, 9, 0};
  static constexpr int8_t kOtherTernary[] = {-9, -1, 7, 0};
  return {
      {"signs of even number",
       {Grids<void>::kIq2Xxs, 2, {kTwoBits, nullptr}, 8, GridSigns::kEven, 32, 15, 0.125f}},
      {"free signs",
       {Grids<void>::kIq2S, 2, {kTwoBits, nullptr}, 8, GridSigns::kFree, 16, 15, 0.125f}},
      {"entries of 4 elements",
       {Grids<void>::kIq3S, 3, {kThreeBits, nullptr}, 4, GridSigns::kFree, 32, 15, 1.0f}},
      {"alternative values",
       {Grids<void>::kIq1, 2, {kTernary, kOtherTernary}, 8, GridSigns::kNone, 32, 7, 0.125f}},
  };
}

// Elements of a group that an encoder brings to the range of the levels.
class Targets {
 public:
  Targets(const std::vector<float>& x, const GridFormat& format, const GridGroup& group)
      : x_(x), format_(format), group_(group) {}

  // The squared error of an entry for the elements from `at` on. Each half is summed alone, as the
  // encoder does, so that equal entries are equal here.
  float error(size_t entry, size_t at) const {
    const size_t n = format_.level_bits == 2 ? 8 : 4;
    float halves[2] = {0.0f, 0.0f};
    for (size_t i = 0; i < n; ++i) {
      const unsigned level = level_of(format_.entries[entry], i, format_.level_bits);
      const int8_t* values = format_.values[group_.second[at / 8] ? 1 : 0];
      const float difference = target(at + i) - static_cast<float>(values[level]);
      halves[i * 2 / n] += difference * difference;
    }
    return halves[0] + halves[1];
  }

 private:
  float target(size_t i) const {
    const int part_scale = 2 * int{group_.part_scales[i / format_.part_len]} + 1;
    const float scale = group_.d * format_.unit * static_cast<float>(part_scale);
    const bool negative = (group_.signs[i / 8] >> (i % 8) & 1) != 0;
    return (negative ? -x_[i] : x_[i]) * reciprocal_or_zero(scale);
  }

  const std::vector<float>& x_;
  const GridFormat& format_;
  const GridGroup& group_;
};

size_t first_nearest(const Targets& targets, size_t n_entries, size_t at) {
  size_t best = 0;
  for (size_t e = 1; e < n_entries; ++e) {
    if (targets.error(e, at) < targets.error(best, at)) best = e;
  }
  return best;
}

TEST(GroupFit, ChoosesTheFirstOfTheNearestEntries) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const Grid& grid : grids()) {
    for (int round = 0; round < 6; ++round) {
      std::vector<float> x(kSuperGroupLen);
      // Rounded elements have equally near entries. A group with zeros has parts without a scale.
      for (float& value : x) value = round % 2 == 0 ? normal(random) : std::round(normal(random));
      if (round >= 4) std::fill(x.begin() + 32, x.end(), 0.0f);
      const GridGroup group = fit_grid(x.data(), grid.format);
      const Targets targets(x, grid.format, group);
      const size_t n = grid.format.level_bits == 2 ? 8 : 4;
      for (size_t at = 0; at < x.size(); at += n) {
        ASSERT_EQ(group.indices[at / n], first_nearest(targets, grid.format.entries.size(), at))
            << grid.name << ", round " << round << ", element " << at;
      }
    }
  }
}

}  // namespace
}  // namespace billow::quant
