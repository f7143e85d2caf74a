#include "runner/meter.h"

#include <gtest/gtest.h>

namespace billow::runner {
namespace {

using std::chrono::milliseconds;

const Meter::Clock::time_point kStart{std::chrono::hours(1)};

TEST(Meter, MeasuresTheTimeOfPasses) {
  Meter meter(kStart);
  EXPECT_EQ(meter.rates(kStart).busy, 0.0);
  meter.begin_pass(kStart + milliseconds(500));
  meter.end_pass(kStart + milliseconds(1500), 100, 0);  // crosses a second boundary
  meter.begin_pass(kStart + milliseconds(1500));
  meter.end_pass(kStart + milliseconds(2000), 0, 5);
  const LoopRates rates = meter.rates(kStart + milliseconds(3000));
  EXPECT_NEAR(rates.busy, 0.5, 1e-9);
  EXPECT_NEAR(rates.prompt_tokens, 100.0, 1e-9);
  EXPECT_NEAR(rates.decoded_tokens, 10.0, 1e-9);
}

TEST(Meter, ForgetsOldPasses) {
  Meter meter(kStart);
  meter.begin_pass(kStart);
  meter.end_pass(kStart + milliseconds(1000), 100, 3);
  EXPECT_GT(meter.rates(kStart + milliseconds(9000)).busy, 0.1);
  const LoopRates rates = meter.rates(kStart + milliseconds(20000));
  EXPECT_EQ(rates.busy, 0.0);
  EXPECT_EQ(rates.prompt_tokens, 0.0);
  EXPECT_EQ(rates.decoded_tokens, 0.0);
}

TEST(Meter, RunningPassCountsAsBusy) {
  Meter meter(kStart);
  meter.begin_pass(kStart + milliseconds(5000));
  EXPECT_NEAR(meter.rates(kStart + milliseconds(10000)).busy, 5.0 / 9.0, 1e-9);
  EXPECT_NEAR(meter.rates(kStart + milliseconds(100000)).busy, 1.0, 1e-9);
  meter.end_pass(kStart + milliseconds(100000), 1000, 0);
  EXPECT_NEAR(meter.rates(kStart + milliseconds(100000)).busy, 1.0, 1e-9);
  EXPECT_NEAR(meter.rates(kStart + milliseconds(100000)).prompt_tokens, 1000.0 / 95.0, 1e-9);
}

}  // namespace
}  // namespace billow::runner
