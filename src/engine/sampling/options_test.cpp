#include "engine/sampling/options.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "base/error.h"

namespace billow::engine {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::string complaint(const std::function<void(SamplingOptions&)>& change) {
  SamplingOptions options;
  change(options);
  try {
    options.validate();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    return error.what();
  }
  return "";
}

TEST(SamplingOptions, HasTheDefaultsOfOllama) {
  const SamplingOptions options;
  EXPECT_EQ(options.temperature, 0.8f);
  EXPECT_EQ(options.top_k, 40);
  EXPECT_EQ(options.top_p, 0.9f);
  EXPECT_EQ(options.min_p, 0.0f);
  EXPECT_EQ(options.typical_p, 1.0f);
  EXPECT_EQ(options.repeat_last_n, 64);
  EXPECT_EQ(options.repeat_penalty, 1.0f);
  EXPECT_EQ(options.presence_penalty, 0.0f);
  EXPECT_EQ(options.frequency_penalty, 0.0f);
  EXPECT_EQ(options.seed, -1);
  EXPECT_EQ(options.mirostat, 0);
  EXPECT_NO_THROW(options.validate());
}

TEST(SamplingOptions, NamesTheFieldItsValueAndTheRange) {
  EXPECT_EQ(complaint([](auto& o) { o.top_p = 1.5f; }),
            "option top_p is 1.5, but must be from 0 to 1");
  EXPECT_EQ(complaint([](auto& o) { o.temperature = kNan; }),
            "option temperature is nan, but must be a finite number");
  EXPECT_EQ(complaint([](auto& o) { o.mirostat = 3; }),
            "option mirostat is 3, but must be 0 (off), 1 or 2");
  EXPECT_EQ(complaint([](auto& o) { o.logit_bias = {{7, kInfinity}}; }),
            "option logit_bias (bias) is inf, but must be a finite number or -infinity");
}

TEST(SamplingOptions, RefusesNanInEveryFloat) {
  for (float SamplingOptions::* field :
       {&SamplingOptions::temperature, &SamplingOptions::top_p, &SamplingOptions::min_p,
        &SamplingOptions::typical_p, &SamplingOptions::repeat_penalty,
        &SamplingOptions::presence_penalty, &SamplingOptions::frequency_penalty,
        &SamplingOptions::mirostat_tau, &SamplingOptions::mirostat_eta}) {
    for (const float value : {kNan, kInfinity, -kInfinity}) {
      EXPECT_NE(complaint([=](auto& o) { o.*field = value; }), "");
    }
  }
  EXPECT_NE(complaint([](auto& o) { o.logit_bias = {{7, kNan}}; }), "");
}

TEST(SamplingOptions, RefusesValuesOutsideTheRangeAndAcceptsItsEnds) {
  for (float SamplingOptions::* field :
       {&SamplingOptions::top_p, &SamplingOptions::min_p, &SamplingOptions::typical_p,
        &SamplingOptions::mirostat_eta}) {
    EXPECT_EQ(complaint([=](auto& o) { o.*field = 0.0f; }), "");
    EXPECT_EQ(complaint([=](auto& o) { o.*field = 1.0f; }), "");
    EXPECT_NE(complaint([=](auto& o) { o.*field = -0.01f; }), "");
    EXPECT_NE(complaint([=](auto& o) { o.*field = 1.01f; }), "");
  }
  for (int32_t SamplingOptions::* field :
       {&SamplingOptions::top_k, &SamplingOptions::repeat_last_n}) {
    EXPECT_EQ(complaint([=](auto& o) { o.*field = -1; }), "");
    EXPECT_NE(complaint([=](auto& o) { o.*field = -2; }), "");
  }
  EXPECT_NE(complaint([](auto& o) { o.repeat_penalty = 0.0f; }), "");
  EXPECT_NE(complaint([](auto& o) { o.mirostat = -1; }), "");
  EXPECT_NE(complaint([](auto& o) { o.mirostat_tau = -1.0f; }), "");
  EXPECT_NE(complaint([](auto& o) { o.top_logprobs = 21; }), "");
  EXPECT_NE(complaint([](auto& o) { o.top_logprobs = -1; }), "");
  EXPECT_NE(complaint([](auto& o) { o.logit_bias = {{-1, 0.0f}}; }), "");
  EXPECT_EQ(complaint([](auto& o) { o.logit_bias = {{1, -kInfinity}, {2, 100.0f}}; }), "");
  EXPECT_EQ(complaint([](auto& o) { o.temperature = -1.0f; }), "");
}

TEST(SamplingOptions, IsGreedyAtTemperatureZeroAndBelow) {
  EXPECT_TRUE(SamplingOptions{.temperature = 0.0f}.is_greedy());
  EXPECT_TRUE(SamplingOptions{.temperature = -2.0f}.is_greedy());
  EXPECT_FALSE(SamplingOptions{.temperature = 1e-30f}.is_greedy());
}

}  // namespace
}  // namespace billow::engine
