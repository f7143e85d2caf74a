// Tests rotations by rows and columns, and the quick form of GELU.
#include "nn/plane_rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "nn/quick_gelu.h"
#include "nn/test_data.h"

namespace billow::nn {
namespace {

const kernels::KernelTable& scalar() { return *kernels::tables().back(); }

// Returns the head with values 1, 2, ... at row 2, column 3, rotated.
std::vector<float> rotated(const PlaneRopeParams& params) {
  const PlaneRope rope(params);
  std::vector<float> cosines(rope.n_pairs());
  std::vector<float> sines(rope.n_pairs());
  rope.angles(2, 3, cosines.data(), sines.data());
  std::vector<float> x(2 * params.head_len);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % params.head_len + 1);
  cpu::ThreadTeam team(1);
  tensor::Arena arena;
  rope.rotate({scalar(), team, arena}, {cosines.data(), 1, cosines.size()},
              {sines.data(), 1, sines.size()}, {x.data(), 1, x.size()});
  for (size_t i = 0; i < params.head_len; ++i) EXPECT_EQ(x[i], x[i + params.head_len]);
  x.resize(params.head_len);
  return x;
}

// Rotates a pair by an angle, into `out`.
void rotate_pair(std::vector<float>& out, size_t first, size_t second, double angle) {
  const auto a = static_cast<double>(first + 1);
  const auto b = static_cast<double>(second + 1);
  out[first] = static_cast<float>(a * std::cos(angle) - b * std::sin(angle));
  out[second] = static_cast<float>(a * std::sin(angle) + b * std::cos(angle));
}

void expect_near(const std::vector<float>& values, const std::vector<float>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-5f) << i;
}

TEST(PlaneRope, RotatesHalvesByRowThenColumn) {
  std::vector<float> expected(8);
  rotate_pair(expected, 0, 4, 2.0);
  rotate_pair(expected, 1, 5, 2.0 * 0.01);
  rotate_pair(expected, 2, 6, 3.0);
  rotate_pair(expected, 3, 7, 3.0 * 0.01);
  expect_near(rotated({.pairs = PlanePairs::kHalves, .head_len = 8}), expected);
}

TEST(PlaneRope, RotatesAdjacentValuesWithStaggeredFrequencies) {
  std::vector<float> expected(8);
  rotate_pair(expected, 0, 1, 2.0);
  rotate_pair(expected, 2, 3, 2.0 * 0.01);
  rotate_pair(expected, 4, 5, 3.0 * 0.1);
  rotate_pair(expected, 6, 7, 3.0 * 0.001);
  expect_near(rotated({.pairs = PlanePairs::kAdjacent, .head_len = 8, .staggered = true}),
              expected);
}

TEST(PlaneRope, RotatesEachHalfOfAHeadByColumnThenRow) {
  std::vector<float> expected(8);
  rotate_pair(expected, 0, 2, 3.0);
  rotate_pair(expected, 1, 3, 3.0 * 0.1);
  rotate_pair(expected, 4, 6, 2.0);
  rotate_pair(expected, 5, 7, 2.0 * 0.1);
  expect_near(rotated({.pairs = PlanePairs::kHalvesOfHalf,
                       .head_len = 8,
                       .base = 100.0,
                       .columns_first = true}),
              expected);
}

TEST(QuickGelu, MultipliesByASigmoid) {
  constexpr size_t kCols = 300;  // more than one step of quick_gelu()
  std::vector<float> x(2 * kCols);
  for (size_t i = 0; i < x.size(); ++i) x[i] = (static_cast<float>(i) - 300.0f) / 40.0f;
  const std::vector<float> before = x;
  cpu::ThreadTeam team(2);
  tensor::Arena arena;
  for (const kernels::KernelTable* table : {&scalar(), &kernels::select_table()}) {
    x = before;
    quick_gelu({*table, team, arena}, {x.data(), 2, kCols});
    for (size_t i = 0; i < x.size(); ++i) {
      const double value = before[i];
      EXPECT_NEAR(x[i], value / (1.0 + std::exp(-1.702 * value)), 1e-5) << table->name;
    }
  }
}

}  // namespace
}  // namespace billow::nn
