#include "engine/sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace billow::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> random_logits(size_t n, uint64_t seed, double spread) {
  Random random(seed);
  std::vector<float> logits(n);
  for (float& logit : logits)
    logit = static_cast<float>((random.uniform() + random.uniform() - 1.0) * spread);
  return logits;
}

std::vector<int32_t> tokens_drawn(Sampler& sampler, const std::vector<float>& logits, int n) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < n; ++i) {
    tokens.push_back(sampler.sample(logits).token);
    sampler.accept(tokens.back());
  }
  return tokens;
}

std::vector<int32_t> tokens_drawn(const SamplingOptions& options, const std::vector<float>& logits,
                                  int n) {
  Sampler sampler(options, static_cast<int32_t>(logits.size()));
  return tokens_drawn(sampler, logits, n);
}

std::string complaint(const SamplingOptions& options, const std::vector<float>& logits) {
  try {
    Sampler(options, static_cast<int32_t>(logits.size())).sample(logits);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// A reference of the chain, slow and in double: full sorts, and probabilities normalised again for
// every filter.
class Reference {
 public:
  Reference(const SamplingOptions& options, const std::vector<float>& logits) {
    for (size_t i = 0; i < logits.size(); ++i)
      items_.push_back({static_cast<double>(logits[i]), static_cast<int32_t>(i)});
    by_logit();
    if (options.top_k > 0) cut(static_cast<size_t>(options.top_k));
    if (options.typical_p < 1.0f) typical(static_cast<double>(options.typical_p));
    if (options.top_p < 1.0f) top_p(static_cast<double>(options.top_p));
    if (options.min_p > 0.0f) {
      const std::vector<double> p = probabilities(1.0);
      size_t n = 1;
      while (n < p.size() && p[n] >= p[0] * static_cast<double>(options.min_p)) ++n;
      cut(n);
    }
    const std::vector<double> p = probabilities(static_cast<double>(options.temperature));
    for (size_t i = 0; i < items_.size(); ++i) probability_of[items_[i].token] = p[i];
  }

  std::map<int32_t, double> probability_of;

 private:
  struct Item {
    double logit;
    int32_t token;
  };

  void by_logit() {
    std::sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
      return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
    });
  }
  void cut(size_t n) { items_.resize(std::min(n, items_.size())); }
  std::vector<double> probabilities(double temperature) const {
    std::vector<double> p;
    double total = 0.0;
    for (const Item& item : items_) total += p.emplace_back(std::exp(item.logit / temperature));
    for (double& value : p) value /= total;
    return p;
  }
  void top_p(double share) {
    const std::vector<double> p = probabilities(1.0);
    double sum = 0.0;
    size_t n = 0;
    while (n < p.size() && sum < share) sum += p[n++];
    cut(std::max<size_t>(n, 1));
  }
  void typical(double share) {
    const std::vector<double> p = probabilities(1.0);
    double entropy = 0.0;
    for (const double q : p) entropy -= q * std::log(q);
    std::vector<std::pair<double, size_t>> order;
    for (size_t i = 0; i < p.size(); ++i)
      order.emplace_back(std::abs(-std::log(p[i]) - entropy), i);
    std::sort(order.begin(), order.end());
    std::vector<Item> kept;
    double sum = 0.0;
    for (const auto& [distance, i] : order) {
      kept.push_back(items_[i]);
      sum += p[i];
      if (sum > share) break;
    }
    items_ = kept;
    by_logit();
  }

  std::vector<Item> items_;
};

TEST(Sampler, DrawsFromTheDistributionOfTheReferenceChain) {
  const std::vector<SamplingOptions> cases = {
      {},
      {.temperature = 1.0f, .top_k = 0, .top_p = 1.0f},
      {.temperature = 0.5f, .top_k = 5, .top_p = 1.0f},
      {.temperature = 2.0f, .top_k = -1, .top_p = 0.6f},
      {.temperature = 1.3f, .top_k = 0, .top_p = 1.0f, .min_p = 0.2f},
      {.temperature = 1.0f, .top_k = 0, .top_p = 0.8f, .min_p = 0.1f},
      {.temperature = 1.0f, .top_k = 0, .top_p = 1.0f, .typical_p = 0.5f},
      {.temperature = 0.9f, .top_k = 30, .top_p = 0.8f, .min_p = 0.02f, .typical_p = 0.7f},
      {.temperature = 1.0f, .top_k = 1, .top_p = 0.9f},
      {.temperature = 1.0f, .top_k = 1000000, .top_p = 0.5f},
  };
  uint64_t seed = 100;
  for (const SamplingOptions& base : cases) {
    for (const size_t n_vocab : {7u, 60u, 2100u}) {
      SamplingOptions options = base;
      options.seed = static_cast<int64_t>(++seed);
      const std::vector<float> logits = random_logits(n_vocab, seed, 9.0);
      const Reference reference(options, logits);
      constexpr int kDraws = 3000;
      std::map<int32_t, int> counts;
      for (const int32_t token : tokens_drawn(options, logits, kDraws)) ++counts[token];
      for (const auto& [token, n] : counts)
        ASSERT_TRUE(reference.probability_of.contains(token)) << seed;
      // Bins of fewer than 8 expected draws are merged.
      double chi_square = 0.0;
      double rest_expected = 0.0;
      int rest = 0;
      int n_bins = 0;
      const auto add = [&](double expected, int n) {
        chi_square += (n - expected) * (n - expected) / expected;
        ++n_bins;
      };
      for (const auto& [token, p] : reference.probability_of) {
        if (p * kDraws >= 8.0) {
          add(p * kDraws, counts[token]);
        } else {
          rest_expected += p * kDraws;
          rest += counts[token];
        }
      }
      if (rest_expected >= 8.0) add(rest_expected, rest);
      EXPECT_LT(chi_square, n_bins + 4.5 * std::sqrt(2.0 * n_bins))
          << "seed " << seed << ", bins " << n_bins;
    }
  }
}

TEST(Sampler, GreedyTakesTheBestAndTheLowestOfEqualOnes) {
  for (const float temperature : {0.0f, -1.0f}) {
    Sampler sampler({.temperature = temperature}, 6);
    EXPECT_EQ(sampler.sample(std::vector<float>{1, 3, 2, 3, 3, 0}).token, 1);
    EXPECT_EQ(sampler.sample(std::vector<float>{-5, -5, -5, -5, -5, -5}).token, 0);
    EXPECT_EQ(sampler.sample(std::vector<float>{kNan, -kInfinity, -7, kNan, -7, -8}).token, 2);
  }
  EXPECT_EQ(
      Sampler({.temperature = 0.0f, .mirostat = 2}, 3).sample(std::vector<float>{0, 0, 1}).token,
      2);
}

TEST(Sampler, GreedyAppliesPenaltiesAndBiasFirst) {
  const std::vector<float> logits = {1.0f, 3.0f, 2.9f, -1.0f};
  const std::vector<int32_t> prompt = {1};
  Sampler penalised({.temperature = 0.0f, .presence_penalty = 0.5f}, 4, prompt);
  EXPECT_EQ(penalised.sample(logits).token, 2);
  penalised.accept(2);
  EXPECT_EQ(penalised.sample(logits).token, 1);
  Sampler biased({.temperature = 0.0f, .logit_bias = {{0, 1.0f}, {0, 1.5f}}}, 4);
  EXPECT_EQ(biased.sample(logits).token, 0);
}

TEST(Sampler, PromptAndOutputFillTheWindow) {
  const std::vector<float> logits(4, 1.0f);
  const std::vector<int32_t> prompt = {0, 1, 2};
  Sampler sampler({.temperature = 0.0f, .repeat_last_n = 2, .repeat_penalty = 2.0f}, 4, prompt);
  EXPECT_EQ(sampler.sample(logits).token, 0);
  sampler.accept(0);
  EXPECT_EQ(sampler.sample(logits).token, 1);
}

TEST(Sampler, BiasBansAndForces) {
  const std::vector<float> logits = random_logits(50, 3, 10.0);
  const auto best =
      static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  for (const int32_t mirostat : {0, 1, 2}) {
    SamplingOptions options{
        .top_p = 1.0f, .mirostat = mirostat, .seed = 4, .logit_bias = {{best, -kInfinity}}};
    for (const int32_t token : tokens_drawn(options, logits, 2000)) ASSERT_NE(token, best);
    options.logit_bias = {{17, 100.0f}};
    for (const int32_t token : tokens_drawn(options, logits, 200)) ASSERT_EQ(token, 17);
  }
}

TEST(Sampler, BiasOutsideTheVocabularyIsRefused) {
  EXPECT_EQ(complaint({.logit_bias = {{3, 1.0f}}}, {0, 0, 0}),
            "option logit_bias names token 3, but the vocabulary has tokens from 0 to 2");
  EXPECT_EQ(complaint({.logit_bias = {{2, 1.0f}}}, {0, 0, 0}), "");
}

TEST(Sampler, RefusesOptionsOutsideTheirRanges) {
  EXPECT_THROW(Sampler({.top_p = 2.0f}, 3), Error);
  EXPECT_THROW(Sampler({.temperature = kNan}, 3), Error);
}

TEST(Sampler, SameSeedSameTokensIndependentOfOtherSamplers) {
  const std::vector<float> logits = random_logits(1000, 5, 6.0);
  const SamplingOptions options{.repeat_penalty = 1.2f, .seed = 42};
  const std::vector<int32_t> alone = tokens_drawn(options, logits, 200);
  Sampler a(options, 1000);
  Sampler b(options, 1000);
  Sampler other({.temperature = 2.0f, .seed = 9}, 1000);
  for (const int32_t expected : alone) {
    const int32_t token = a.sample(logits).token;
    ASSERT_EQ(token, expected);
    other.sample(logits);
    ASSERT_EQ(b.sample(logits).token, expected);
    a.accept(token);
    b.accept(token);
  }
  SamplingOptions reseeded = options;
  reseeded.seed = 43;
  EXPECT_NE(tokens_drawn(reseeded, logits, 200), alone);
}

TEST(Sampler, LogprobsDoNotChangeTheTokens) {
  const std::vector<float> logits = random_logits(1000, 5, 6.0);
  for (const int32_t mirostat : {0, 1, 2}) {
    SamplingOptions options{.repeat_penalty = 1.2f, .mirostat = mirostat, .seed = 42};
    const std::vector<int32_t> plain = tokens_drawn(options, logits, 100);
    options.logprobs = true;
    options.top_logprobs = 5;
    EXPECT_EQ(tokens_drawn(options, logits, 100), plain);
  }
}

// Fixed values: a change here breaks every user's reproducible output.
TEST(Sampler, TokensOfASeedStayTheSame) {
  const std::vector<float> logits = random_logits(1000, 5, 6.0);
  EXPECT_EQ(tokens_drawn(SamplingOptions{.seed = 1}, logits, 8),
            (std::vector<int32_t>{699, 826, 719, 826, 137, 247, 5, 37}));
}

TEST(Sampler, ARandomSeedIsChosenOnceAndReported) {
  const std::vector<float> logits = random_logits(1000, 6, 6.0);
  Sampler sampler({.seed = -7}, 1000);
  EXPECT_GE(sampler.seed(), 0);
  EXPECT_LT(sampler.seed(), int64_t{1} << 53);
  EXPECT_NE(sampler.seed(), Sampler({}, 1000).seed());
  const int64_t seed = sampler.seed();
  const std::vector<int32_t> tokens = tokens_drawn(sampler, logits, 50);
  EXPECT_EQ(sampler.seed(), seed);
  EXPECT_EQ(tokens_drawn({.seed = seed}, logits, 50), tokens);
  EXPECT_EQ(Sampler({.seed = std::numeric_limits<int64_t>::max()}, 5).seed(),
            std::numeric_limits<int64_t>::max());
}

TEST(Sampler, ACopyContinuesIndependently) {
  const std::vector<float> logits = random_logits(1000, 5, 6.0);
  Sampler original({.presence_penalty = 0.5f, .seed = 42}, 1000);
  tokens_drawn(original, logits, 20);
  Sampler copy = original;
  EXPECT_EQ(tokens_drawn(copy, logits, 50), tokens_drawn(original, logits, 50));
}

TEST(Sampler, LogprobsAreTheLogSoftmaxOfTheRawLogits) {
  const std::vector<float> logits = random_logits(20, 8, 5.0);
  double total = 0.0;
  for (const float logit : logits) total += std::exp(static_cast<double>(logit));
  const SamplingOptions options{.temperature = 0.3f,
                                .presence_penalty = 1.0f,
                                .seed = 3,
                                .logprobs = true,
                                .top_logprobs = 20,
                                .logit_bias = {{4, 50.0f}}};
  Sampler sampler(options, 20);
  const Sampled sampled = sampler.sample(logits);
  EXPECT_EQ(sampled.token, 4);
  EXPECT_NEAR(sampled.logprob, static_cast<double>(logits[4]) - std::log(total), 1e-5);
  ASSERT_EQ(sampled.top.size(), 20u);
  double sum = 0.0;
  for (size_t i = 0; i < sampled.top.size(); ++i) {
    const auto token = static_cast<size_t>(sampled.top[i].token);
    EXPECT_NEAR(sampled.top[i].logprob, static_cast<double>(logits[token]) - std::log(total), 1e-5);
    if (i > 0) {
      EXPECT_LE(sampled.top[i].logprob, sampled.top[i - 1].logprob);
    }
    sum += std::exp(static_cast<double>(sampled.top[i].logprob));
  }
  EXPECT_NEAR(sum, 1.0, 1e-5);
}

TEST(Sampler, TopLogprobsAreLimitedByTheOptionAndThePossibleTokens) {
  std::vector<float> logits = random_logits(100, 9, 5.0);
  Sampler three({.temperature = 0.0f, .logprobs = true, .top_logprobs = 3}, 100);
  const Sampled sampled = three.sample(logits);
  ASSERT_EQ(sampled.top.size(), 3u);
  EXPECT_EQ(sampled.top[0].token, sampled.token);
  EXPECT_EQ(sampled.top[0].logprob, sampled.logprob);
  Sampler none({.temperature = 0.0f, .top_logprobs = 3}, 100);
  EXPECT_TRUE(none.sample(logits).top.empty());
  std::fill(logits.begin() + 2, logits.end(), -kInfinity);
  EXPECT_EQ(three.sample(logits).top.size(), 2u);
}

TEST(Sampler, LogitsThatAreNotFiniteAreNeverChosen) {
  std::vector<float> logits = random_logits(400, 10, 3.0);
  for (size_t i = 0; i < logits.size(); i += 3) logits[i] = i % 2 == 0 ? kNan : -kInfinity;
  for (const int32_t mirostat : {0, 1, 2}) {
    for (const int32_t top_k : {0, 20, 1000}) {
      for (const float top_p : {1.0f, 0.9f}) {
        const SamplingOptions options{.temperature = 5.0f,
                                      .top_k = top_k,
                                      .top_p = top_p,
                                      .presence_penalty = 0.5f,
                                      .mirostat = mirostat,
                                      .mirostat_tau = 9.0f,
                                      .seed = 1,
                                      .logprobs = true,
                                      .top_logprobs = 20,
                                      .logit_bias = {{0, 100.0f}, {3, 100.0f}}};
        Sampler sampler(options, 400);
        for (int i = 0; i < 300; ++i) {
          const Sampled sampled = sampler.sample(logits);
          ASSERT_NE(sampled.token % 3, 0);
          ASSERT_TRUE(std::isfinite(sampled.logprob));
          for (const TokenLogprob& entry : sampled.top) ASSERT_NE(entry.token % 3, 0);
          sampler.accept(sampled.token);
        }
      }
    }
  }
}

TEST(Sampler, InfiniteAndHugeLogitsWin) {
  for (const float winner : {kInfinity, 3.4e38f}) {
    const std::vector<float> logits = {0.0f, -3.4e38f, winner, 5.0f, kNan};
    for (const int32_t mirostat : {0, 1, 2}) {
      for (const float temperature : {0.0f, 1e-45f, 1.0f, 100.0f}) {
        const SamplingOptions options{.temperature = temperature,
                                      .top_k = 0,
                                      .mirostat = mirostat,
                                      .seed = 1,
                                      .logprobs = true};
        Sampler sampler(options, 5);
        const Sampled sampled = sampler.sample(logits);
        EXPECT_EQ(sampled.token, 2);
        EXPECT_EQ(sampled.logprob, 0.0f);
      }
    }
  }
}

TEST(Sampler, ReportsThatNoTokenCanBeChosen) {
  for (const float temperature : {0.0f, 0.8f}) {
    for (const float value : {kNan, -kInfinity}) {
      EXPECT_NE(
          complaint({.temperature = temperature}, {value, value, value}).find("no finite logits"),
          std::string::npos);
      EXPECT_NE(complaint({.temperature = temperature, .logit_bias = {{0, 3.0f}}}, {value, value})
                    .find("no finite logits"),
                std::string::npos);
    }
    EXPECT_EQ(
        complaint({.temperature = temperature, .logit_bias = {{0, -kInfinity}, {1, -kInfinity}}},
                  {1, 2}),
        "logit_bias, the penalties and the grammar leave no token to choose from: allow at least "
        "one");
  }
}

TEST(Sampler, SurvivesEveryCombinationOfExtremes) {
  Random random(77);
  const auto pick = [&](std::initializer_list<float> values) {
    return values
        .begin()[static_cast<size_t>(random.uniform() * static_cast<double>(values.size()))];
  };
  for (int round = 0; round < 3000; ++round) {
    const SamplingOptions options{
        .temperature = pick({-1e30f, 0.0f, 1e-45f, 1e-10f, 0.8f, 3.4e38f}),
        .top_k = static_cast<int32_t>(pick({-1.0f, 0.0f, 1.0f, 7.0f, 2e9f})),
        .top_p = pick({0.0f, 1e-45f, 0.9f, 0.9999999f, 1.0f}),
        .min_p = pick({0.0f, 1e-45f, 0.5f, 1.0f}),
        .typical_p = pick({0.0f, 0.5f, 0.9999999f, 1.0f}),
        .repeat_last_n = static_cast<int32_t>(pick({-1.0f, 0.0f, 1.0f, 2e9f})),
        .repeat_penalty = pick({1e-45f, 1.0f, 1.5f, 3.4e38f}),
        .presence_penalty = pick({-3.4e38f, 0.0f, 3.4e38f}),
        .frequency_penalty = pick({-3.4e38f, 0.0f, 1.0f}),
        .mirostat = static_cast<int32_t>(pick({0.0f, 0.0f, 1.0f, 2.0f})),
        .mirostat_tau = pick({0.0f, 5.0f, 100.0f}),
        .mirostat_eta = pick({0.0f, 0.1f, 1.0f}),
        .seed = round,
        .logprobs = true,
        .top_logprobs = 20,
        .logit_bias = {{0, pick({-kInfinity, -3.4e38f, 0.0f, 3.4e38f})}},
    };
    std::vector<float> logits(static_cast<size_t>(pick({1.0f, 2.0f, 130.0f, 2100.0f})));
    for (float& logit : logits)
      logit = pick({0.0f, 1.0f, -1.0f, 3.4e38f, -3.4e38f, kInfinity, -kInfinity, kNan});
    Sampler sampler(options, static_cast<int32_t>(logits.size()));
    try {
      for (int i = 0; i < 4; ++i) {
        const Sampled sampled = sampler.sample(logits);
        ASSERT_GE(sampled.token, 0);
        ASSERT_LT(static_cast<size_t>(sampled.token), logits.size());
        ASSERT_FALSE(std::isnan(sampled.logprob));
        sampler.accept(sampled.token);
      }
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kInvalidInput);
    }
  }
}

std::vector<uint32_t> mask_of(const std::vector<int32_t>& tokens, size_t n_vocab) {
  std::vector<uint32_t> mask((n_vocab + 31) / 32);
  for (const int32_t token : tokens)
    mask[static_cast<size_t>(token) / 32] |= uint32_t{1} << (static_cast<uint32_t>(token) % 32);
  return mask;
}

TEST(Sampler, ChoosesAllowedTokensAsIfTheOthersWereBanned) {
  const size_t n_vocab = 1000;  // not divisible by 32
  const std::vector<float> logits = random_logits(n_vocab, 3, 4.0);
  const std::vector<int32_t> allowed = {0, 31, 32, 63, 64, 500, 501, 999};
  const std::vector<uint32_t> mask = mask_of(allowed, n_vocab);
  for (const int32_t mirostat : {0, 1, 2}) {
    SamplingOptions options{.top_k = 5, .repeat_penalty = 1.2f, .mirostat = mirostat, .seed = 4};
    Sampler masked(options, static_cast<int32_t>(n_vocab));
    for (int32_t token = 0; token < static_cast<int32_t>(n_vocab); ++token)
      if (std::ranges::find(allowed, token) == allowed.end())
        options.logit_bias.push_back({token, -kInfinity});
    Sampler banned(options, static_cast<int32_t>(n_vocab));
    for (int i = 0; i < 200; ++i) {
      const int32_t token = masked.sample(logits, mask).token;
      ASSERT_EQ(token, banned.sample(logits).token);
      masked.accept(token);
      banned.accept(token);
    }
  }
}

TEST(Sampler, ASingleAllowedTokenChangesNoState) {
  const std::vector<float> logits = random_logits(300, 5, 3.0);
  for (const int32_t mirostat : {0, 2}) {
    const SamplingOptions options{.mirostat = mirostat, .seed = 9, .logprobs = true};
    Sampler plain(options, 300);
    Sampler interrupted(options, 300);
    for (int i = 0; i < 50; ++i) {
      const Sampled only = interrupted.sample(logits, mask_of({77}, 300));
      EXPECT_EQ(only.token, 77);
      EXPECT_LT(only.logprob, 0.0f);
      const Sampled one = plain.sample(logits);
      const Sampled other = interrupted.sample(logits);
      ASSERT_EQ(one.token, other.token);
      ASSERT_EQ(one.logprob, other.logprob);
    }
  }
}

TEST(Sampler, LogProbabilitiesAreOfAllTokens) {
  const std::vector<float> logits = random_logits(300, 6, 3.0);
  const SamplingOptions options{.seed = 2, .logprobs = true, .top_logprobs = 3};
  Sampler sampler(options, 300);
  const Sampled free = sampler.sample(logits);
  const Sampled held = sampler.sample(logits, mask_of({1, 2, 3}, 300));
  ASSERT_EQ(free.top.size(), 3u);
  ASSERT_EQ(held.top.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(free.top[i].token, held.top[i].token);
}

TEST(Sampler, ThrowsIfTheGrammarAllowsOnlyBannedTokens) {
  SamplingOptions options{.seed = 1};
  for (const int32_t token : {3, 4}) options.logit_bias.push_back({token, -kInfinity});
  Sampler sampler(options, 100);
  const std::vector<float> logits(100, 0.0f);
  EXPECT_THROW(sampler.sample(logits, mask_of({3, 4}, 100)), Error);
  EXPECT_EQ(sampler.sample(logits, mask_of({3, 4, 5}, 100)).token, 5);
}

}  // namespace
}  // namespace billow::engine
