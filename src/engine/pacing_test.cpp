#include "engine/pacing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

namespace billow::engine {
namespace {

using std::chrono::milliseconds;

std::chrono::nanoseconds seconds(double value) {
  return std::chrono::nanoseconds(static_cast<int64_t>(value * 1e9));
}

struct Result {
  double longest = 0.0;     // longest pass after the first ten
  double write_rate = 0.0;  // passes of generating sequences, relative to passes without prompts
  double read_rate = 0.0;   // prompt rows, relative to passes with prompts only
};

// Simulates generating sequences while prompts are always pending. A row of a prompt takes `row`
// seconds, a pass of the generating sequences takes `write` seconds.
Result run(double write, double row, milliseconds max_pass_time) {
  Pacing pacing(max_pass_time);
  std::mt19937 random(1);
  Result result;
  double now = 0.0;
  double n_written = 0.0;
  double n_read = 0.0;
  for (int i = 0; i < 40; ++i) pacing.note({1, 0, seconds(write)});
  for (int pass = 0; pass < 3000; ++pass) {
    const size_t n = std::min<size_t>(512, pacing.max_read_rows());
    const double noise = 0.9 + 0.2 * double(random() % 1000) / 1000.0;
    const double time = (write + row * double(n)) * noise;
    pacing.note({1, n, seconds(time)});
    now += time;
    n_written += 1.0;
    n_read += double(n);
    if (pass >= 10) result.longest = std::max(result.longest, time);
  }
  result.write_rate = n_written * write / now;
  result.read_rate = n_read * row / now;
  return result;
}

TEST(Pacing, LimitsPassesAndBothSidesProgress) {
  // Models of 0.1, 0.5, 8 and 30 billion weights on two cores, and a machine with many cores.
  constexpr struct {
    double write, row;
  } kMachines[] = {{0.0033, 0.0006}, {0.0128, 0.0017}, {0.2, 0.03}, {0.1, 0.002}, {0.02, 0.0001}};
  for (const auto& machine : kMachines) {
    const Result result = run(machine.write, machine.row, milliseconds(100));
    const double longest = std::max({0.1, 2.0 * machine.write, machine.write + 8.0 * machine.row});
    EXPECT_LT(result.longest, 1.35 * longest) << machine.write;
    EXPECT_GT(result.write_rate, 0.31) << machine.write;
    EXPECT_GT(result.read_rate, 0.3) << machine.write;
  }
}

TEST(Pacing, WithoutALimitPromptsAreNotChunked) {
  Pacing pacing(milliseconds(0));
  EXPECT_EQ(pacing.max_read_rows(), SIZE_MAX);
  pacing.note({1, 0, milliseconds(1)});
  pacing.note({1, 512, milliseconds(900)});
  EXPECT_EQ(pacing.max_read_rows(), SIZE_MAX);
}

TEST(Pacing, StartsWithFewRowsBeforeTheFirstMeasurement) {
  Pacing pacing(milliseconds(100));
  EXPECT_GT(pacing.max_read_rows(), 0u);
  EXPECT_LE(pacing.max_read_rows(), 32u);
}

// A prompt that was evaluated while no sequence generated is a measurement, but no debt.
TEST(Pacing, LearnsFromPassesThatOnlyRead) {
  Pacing pacing(milliseconds(100));
  pacing.note({0, 512, milliseconds(512)});
  EXPECT_NEAR(static_cast<double>(pacing.max_read_rows()), 100.0, 1.0);
}

// One very slow pass does not delay prompts forever.
TEST(Pacing, ForgivesOneVerySlowPass) {
  Pacing pacing(milliseconds(100));
  for (int i = 0; i < 20; ++i) pacing.note({1, 0, milliseconds(1)});
  pacing.note({1, 32, std::chrono::seconds(100)});
  size_t n_passes = 0;
  while (pacing.max_read_rows() == 0) {
    pacing.note({1, 0, milliseconds(1)});
    ASSERT_LT(++n_passes, 1000u);
  }
}

}  // namespace
}  // namespace billow::engine
