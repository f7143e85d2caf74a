#include "engine/sampling/mirostat.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/sampling/sampler.h"

namespace billow::engine {
namespace {

// Returns logits of p_i ~ 1 / (i + 1)^s.
std::vector<float> zipf(size_t n, double s) {
  std::vector<float> logits;
  for (size_t i = 0; i < n; ++i)
    logits.push_back(static_cast<float>(-s * std::log(static_cast<double>(i + 1))));
  return logits;
}

std::vector<Candidate> best_of(const std::vector<float>& logits) {
  LogitScan scan;
  scan.read(logits);
  std::vector<Candidate> best;
  scan.top(Mirostat::kEstimationTokens, best);
  return best;
}

TEST(Mirostat, KFollowsThePapersFormula) {
  constexpr int32_t kVocab = 5000;
  for (const double s : {0.7, 1.3, 2.0}) {
    for (const float tau : {1.0f, 2.0f, 3.0f}) {
      const Mirostat mirostat({.mirostat_tau = tau});
      const double epsilon = s - 1.0;
      const double mu = 2.0 * static_cast<double>(tau);
      const double k =
          std::pow(epsilon * std::pow(2.0, mu) / (1.0 - std::pow(kVocab, -epsilon)), 1.0 / s);
      const size_t found = mirostat.top_k(best_of(zipf(kVocab, s)), 1.0f, kVocab);
      EXPECT_NEAR(static_cast<double>(found), std::clamp(k, 1.0, static_cast<double>(kVocab)),
                  1.0 + 0.001 * k);
    }
  }
}

TEST(Mirostat, KDependsOnTheTemperature) {
  const Mirostat mirostat({.mirostat_tau = 3.0f});
  EXPECT_EQ(mirostat.top_k(best_of(zipf(3000, 3.0)), 2.0f, 3000),
            mirostat.top_k(best_of(zipf(3000, 1.5)), 1.0f, 3000));
}

TEST(Mirostat, KStaysInRangeForDegenerateLogits) {
  const Mirostat mirostat({.mirostat_tau = 5.0f});
  const std::vector<std::vector<float>> rows = {{0.0f},
                                                {1.0f, 1.0f},
                                                std::vector<float>(500, 0.0f),
                                                zipf(500, 1.0),
                                                {3e38f, -3e38f, -3.1e38f}};
  for (const std::vector<float>& row : rows) {
    for (const float temperature : {1e-45f, 1.0f, 1e30f}) {
      const size_t k = mirostat.top_k(best_of(row), temperature, static_cast<int32_t>(row.size()));
      EXPECT_GE(k, 1u);
      EXPECT_LE(k, row.size());
    }
  }
}

TEST(Mirostat, ObserveMovesMuAgainstTheError) {
  Mirostat mirostat({.mirostat_tau = 3.0f, .mirostat_eta = 0.5f});
  EXPECT_DOUBLE_EQ(mirostat.mu(), 6.0);
  mirostat.observe(0.5);  // a surprise of 1 bit, 2 below the target
  EXPECT_DOUBLE_EQ(mirostat.mu(), 7.0);
  mirostat.observe(0x1p-7);
  EXPECT_DOUBLE_EQ(mirostat.mu(), 5.0);
}

// Replays a sampler from outside: calculates which tokens are kept before each draw. Returns the
// mean surprise in bits of the drawn tokens among them. `logits` must be sorted, best first.
double mean_surprise(const SamplingOptions& options, const std::vector<float>& logits) {
  const auto n_vocab = static_cast<int32_t>(logits.size());
  const std::vector<Candidate> best = best_of(logits);
  std::vector<double> sums;  // [i]: sum of the weights of the tokens up to i
  for (const float logit : logits) {
    const double weight =
        std::exp(static_cast<double>(logit) / static_cast<double>(options.temperature));
    sums.push_back((sums.empty() ? 0.0 : sums.back()) + weight);
  }
  const auto weight_of = [&](size_t i) { return i == 0 ? sums[0] : sums[i] - sums[i - 1]; };
  Sampler sampler(options, n_vocab);
  Mirostat followed(options);
  constexpr int kTokens = 2500;
  double sum = 0.0;
  for (int i = 0; i < kTokens; ++i) {
    size_t n_kept = 1;
    if (options.mirostat == 1) {
      n_kept = followed.top_k(best, options.temperature, n_vocab);
    } else {
      // The sampler compares logits as floats, so it may keep a token within rounding of the limit.
      const double limit = followed.mu() + 1e-5;
      while (n_kept < logits.size() && -std::log2(weight_of(n_kept) / sums.back()) <= limit)
        ++n_kept;
    }
    const auto token = static_cast<size_t>(sampler.sample(logits).token);
    EXPECT_LT(token, n_kept);
    const double probability = weight_of(token) / sums[n_kept - 1];
    followed.observe(probability);
    sum -= std::log2(probability);
  }
  return sum / kTokens;
}

TEST(Mirostat, BothVersionsBringTheSurpriseNearTau) {
  const std::vector<float> logits = zipf(1500, 1.1);
  for (const int32_t version : {1, 2}) {
    for (const float tau : {2.0f, 3.0f, 5.0f}) {
      for (const float temperature : {0.9f, 1.2f}) {
        const SamplingOptions options{.temperature = temperature,
                                      .mirostat = version,
                                      .mirostat_tau = tau,
                                      .mirostat_eta = 0.2f,
                                      .seed = 5};
        EXPECT_NEAR(mean_surprise(options, logits), tau, 0.05)
            << version << " " << tau << " " << temperature;
      }
    }
  }
}

TEST(Mirostat, ATargetAboveTheEntropyKeepsTheWholeDistribution) {
  const std::vector<float> logits = zipf(50, 2.0);  // entropy of 2.19 bits
  for (const int32_t version : {1, 2}) {
    EXPECT_NEAR(
        mean_surprise({.temperature = 1.0f, .mirostat = version, .mirostat_tau = 9.0f, .seed = 6},
                      logits),
        2.19, 0.15);
  }
}

}  // namespace
}  // namespace billow::engine
