#include "engine/embed/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/embed/test_cases.h"

namespace billow::engine {
namespace {

// ---- configuration

std::string refusal(const EmbedSettings& settings, size_t model_max = 512) {
  try {
    resolve_sizes(settings, model_max);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    return error.what();
  }
  return "";
}

TEST(EmbedSizes, CFG_1_NothingIsSet) {
  const EmbedSizes sizes = resolve_sizes({}, 512);
  EXPECT_EQ(sizes.n_batch, 2048u);
  EXPECT_EQ(sizes.n_ubatch, 2048u);
  EXPECT_EQ(sizes.context_size, 8192u);
  EXPECT_EQ(resolve_sizes({}, 32768).context_size, 32768u);
}

TEST(EmbedSizes, CFG_1_AModelOfLongTextsTakesThemByDefault) {
  const EmbedSizes sizes = resolve_sizes({}, 8192);
  EXPECT_EQ(sizes.n_batch, 2048u);
  EXPECT_EQ(sizes.n_ubatch, 8192u);
  EXPECT_EQ(resolve_sizes({.context_size = 4096}, 8192).n_ubatch, 4096u);
  EXPECT_EQ(resolve_sizes({.n_batch = 2048}, 8192).n_ubatch, 2048u);
  EXPECT_EQ(resolve_sizes({.n_ubatch = 512}, 8192).n_ubatch, 512u);
}

TEST(EmbedSizes, CFG_2_NUbatchFollowsNBatch) {
  const EmbedSizes sizes = resolve_sizes({.n_batch = 4096}, 512);
  EXPECT_EQ(sizes.n_ubatch, 4096u);
  EXPECT_EQ(sizes.context_size, 16384u);
}

TEST(EmbedSizes, CFG_3_NUbatchAboveNBatchIsRefusedWithBothValues) {
  const std::string text = refusal({.n_batch = 512, .n_ubatch = 2048});
  EXPECT_NE(text.find("512"), std::string::npos) << text;
  EXPECT_NE(text.find("2048"), std::string::npos) << text;
}

TEST(EmbedSizes, CFG_4_ZeroIsRefused) {
  EXPECT_NE(refusal({.n_batch = 0}), "");
  EXPECT_NE(refusal({.n_ubatch = 0}), "");
  EXPECT_NE(refusal({.context_size = 0}), "");
  EXPECT_NE(refusal({.n_seq_max = 0}), "");
  EXPECT_NE(refusal({.max_batches = 0}), "");
}

TEST(EmbedSizes, CFG_5_NBatchAboveTheContextIsRefused) {
  EXPECT_NE(refusal({.n_batch = 4096, .context_size = 2048}), "");
  EXPECT_NE(refusal({.context_size = 2047}), "");  // below the default
  EXPECT_EQ(refusal({.context_size = 2048}), "");
}

TEST(EmbedSizes, CFG_6_OneTokenIsEnough) {
  const EmbedSizes sizes = resolve_sizes({.n_batch = 1, .n_ubatch = 1, .context_size = 1}, 512);
  EXPECT_EQ(pass_tokens(sizes, 10, 0), 1u);
  EXPECT_EQ(pass_tokens(sizes, 10, 1), 0u);
}

TEST(EmbedSizes, CFG_7_TheModelLimitsTextsAndNotPasses) {
  const EmbedSizes sizes = resolve_sizes({.n_batch = 2048}, 512);
  EXPECT_EQ(text_limit(sizes, 512), 512u);
  EXPECT_EQ(sizes.n_batch, 2048u);
}

TEST(EmbedSizes, CFG_8_TheLineHasAllValues) {
  EXPECT_EQ(sizes_line(resolve_sizes({.n_batch = 100, .n_seq_max = 3}, 512)),
            "n_batch=100, n_ubatch=100, n_seq_max=3, context_size=512, max_batches=1");
}

TEST(EmbedSizes, LargeNumbersDoNotWrap) {
  const size_t max = SIZE_MAX;
  EXPECT_EQ(resolve_sizes({.n_batch = max}, 1).context_size, max);
  const EmbedSizes sizes = resolve_sizes({.n_batch = max / 2}, 1);
  EXPECT_EQ(pass_tokens(sizes, max, max), 0u);
  EXPECT_EQ(passes_to_start(sizes, max, 0), 2u);
}

// SV-1: the limit is min(model context, n_ubatch), independent of slots.
TEST(EmbedSizes, SV_1_TheLimitOfATextDependsOnNoOtherSize) {
  for (const size_t slots : {1u, 2u, 4u, 8u, 256u}) {
    for (const size_t context : {512u, 2048u, 8192u}) {
      const EmbedSizes sizes = resolve_sizes({.n_batch = 8192, .n_seq_max = slots}, context);
      EXPECT_EQ(text_limit(sizes, context), context);
    }
  }
}

TEST(EmbedSizes, ParallelPassesDivideTheThreads) {
  using Threads = std::vector<size_t>;
  const auto threads = [](size_t max_batches, size_t n_threads, size_t context = 8192) {
    return threads_of_passes({.context_size = context, .max_batches = max_batches}, n_threads);
  };
  EXPECT_EQ(threads(1, 8), Threads{8});
  EXPECT_EQ(threads(2, 8), (Threads{4, 4}));
  EXPECT_EQ(threads(3, 8), (Threads{3, 3, 2}));
  EXPECT_EQ(threads(8, 2), (Threads{1, 1})) << "no pass without a core";
  EXPECT_EQ(threads(8, 64), (Threads{16, 16, 16, 16})) << "limited by the context";
  EXPECT_EQ(threads(2, 8, 2048), Threads{8});
  EXPECT_EQ(threads(2, 0), Threads{1});
}

TEST(EmbedSizes, TheSizingLineHasTheDecisionAndItsReason) {
  const EmbedSizes sizes;
  const auto line = [&](size_t pending, size_t active) {
    return sizing_line(size_pass(sizes, pending, active), sizes);
  };
  EXPECT_EQ(line(0, 1000),
            "pending=0 active=1000 available=7192 n_batch=2048: 0 tokens (no pending work)");
  EXPECT_EQ(line(500, 0),
            "pending=500 active=0 available=8192 n_batch=2048: 500 tokens "
            "(light load, all pending tokens)");
  EXPECT_EQ(line(5000, 6144),
            "pending=5000 active=6144 available=2048 n_batch=2048: 2048 tokens "
            "(heavy load with capacity, a full batch)");
  for (const auto& [pending, active, tokens] :
       {std::array<size_t, 3>{5000, 7000, 1192}, {500, 8000, 192}, {5000, 8192, 0}})
    EXPECT_EQ(line(pending, active),
              "pending=" + std::to_string(pending) + " active=" + std::to_string(active) +
                  " available=" + std::to_string(8192 - active) + " n_batch=2048: " +
                  std::to_string(tokens) + " tokens (at capacity, the free part of the context)");
}

// ---- the size of a pass

struct SizeCase {
  const char* id;
  size_t pending;
  size_t active;
  size_t expected;
  size_t context = 8192;
};
class PassTokens : public testing::TestWithParam<SizeCase> {};

TEST_P(PassTokens, FollowTheLoad) {
  const SizeCase& row = GetParam();
  const EmbedSizes sizes = {.context_size = row.context};
  EXPECT_EQ(pass_tokens(sizes, row.pending, row.active), row.expected);
}

INSTANTIATE_TEST_SUITE_P(
    Table, PassTokens,
    testing::Values(SizeCase{"SZ-1", 0, 1000, 0}, SizeCase{"SZ-2", 1, 0, 1},
                    SizeCase{"SZ-3", 500, 0, 500}, SizeCase{"SZ-4", 2047, 0, 2047},
                    SizeCase{"SZ-5", 2048, 1000, 2048}, SizeCase{"SZ-6", 5000, 1000, 2048},
                    SizeCase{"SZ-7", 5000, 6144, 2048}, SizeCase{"SZ-8", 5000, 6145, 2047},
                    SizeCase{"SZ-9", 5000, 7000, 1192}, SizeCase{"SZ-10", 5000, 8190, 2},
                    SizeCase{"SZ-11", 500, 8000, 192}, SizeCase{"SZ-12", 2047, 7000, 1192},
                    SizeCase{"SZ-13", 500, 8191, 1}, SizeCase{"SZ-14", 5000, 8192, 0},
                    SizeCase{"SZ-15", 5000, 9000, 0}, SizeCase{"SZ-16", 1000000, 0, 2048, 2048},
                    SizeCase{"SZ-17", 3000, 0, 2047, 2047}),
    kNameOf);

// ---- parallel passes

struct StartCase {
  const char* id;
  size_t pending;
  size_t running;
  size_t context;
  size_t expected;
};
class PassesToStart : public testing::TestWithParam<StartCase> {};

TEST_P(PassesToStart, FillThePlaces) {
  const StartCase& row = GetParam();
  const EmbedSizes sizes = {.context_size = row.context};
  EXPECT_EQ(passes_to_start(sizes, row.pending, row.running), row.expected);
}

INSTANTIATE_TEST_SUITE_P(
    Table, PassesToStart,
    testing::Values(StartCase{"CC-1", 4095, 0, 8192, 0}, StartCase{"CC-2", 4096, 0, 8192, 2},
                    StartCase{"CC-3", 10000, 1, 8192, 3}, StartCase{"CC-4", 100000, 0, 8192, 4},
                    StartCase{"CC-5", 100000, 4, 8192, 0}, StartCase{"CC-6", 6144, 3, 8192, 1},
                    StartCase{"CC-7", 8192, 0, 4096, 2}, StartCase{"CC-8", 4096, 0, 2048, 1},
                    StartCase{"CC-9", 4096, 1, 2048, 0}, StartCase{"CC-10", 4096, 0, 1000, 0}),
    kNameOf);

// ---- retries

Lengths all_targets(size_t first, size_t max_attempts = 4) {
  Lengths targets = {first};
  while (const auto next = retry_tokens(targets.back(), targets.size(), max_attempts))
    targets.push_back(*next);
  return targets;
}

struct RetryCase {
  const char* id;
  Lengths targets;
};
class RetryTokens : public testing::TestWithParam<RetryCase> {};

TEST_P(RetryTokens, AreHalvedDownToTheFloor) {
  EXPECT_EQ(all_targets(GetParam().targets.front()), GetParam().targets);
}

INSTANTIATE_TEST_SUITE_P(
    Table, RetryTokens,
    testing::Values(RetryCase{"OM-1", {8192, 4096, 2048, 1024}},
                    RetryCase{"OM-2", {4096, 2048, 1024, 512}},
                    RetryCase{"OM-3", {2048, 1024, 512, 256}},
                    RetryCase{"OM-4", {1024, 512, 256, 128}},
                    RetryCase{"OM-5", {512, 256, 128, 64}}, RetryCase{"OM-6", {511, 255, 127, 64}},
                    RetryCase{"OM-7", {500, 250, 125, 64}}, RetryCase{"OM-8", {300, 150, 75, 64}},
                    RetryCase{"OM-9", {256, 128, 64}}, RetryCase{"OM-10", {200, 100, 64}},
                    RetryCase{"OM-11", {129, 64}}, RetryCase{"OM-12", {128, 64}},
                    RetryCase{"OM-13", {100, 64}}, RetryCase{"OM-14", {65, 64}},
                    RetryCase{"OM-15", {64}}, RetryCase{"OM-16", {50}}, RetryCase{"OM-17", {1}}),
    kNameOf);

TEST(RetryTokensOf, OM_18_TheMaxAttemptsAreASetting) {
  EXPECT_EQ(all_targets(2048, 6), (Lengths{2048, 1024, 512, 256, 128, 64}));
  EXPECT_EQ(all_targets(2048, 1), (Lengths{2048}));
}

TEST(PassCeilingOf, OM_23_ThreeRetriesLowerItAndCleanPassesDoubleIt) {
  PassCeiling ceiling(2048);
  ceiling.retried(1024);
  ceiling.retried(1024);
  ceiling.clean();  // so the retries are not in a row
  ceiling.retried(1024);
  ceiling.retried(1024);
  EXPECT_EQ(ceiling.tokens(), 2048u);
  ceiling.retried(512);
  EXPECT_EQ(ceiling.tokens(), 512u);
  for (int i = 0; i < 15; ++i) ceiling.clean();
  EXPECT_EQ(ceiling.tokens(), 512u);
  ceiling.clean();
  EXPECT_EQ(ceiling.tokens(), 1024u);
  for (int i = 0; i < 16; ++i) ceiling.clean();
  EXPECT_EQ(ceiling.tokens(), 2048u);
  for (int i = 0; i < 100; ++i) ceiling.clean();
  EXPECT_EQ(ceiling.tokens(), 2048u);
  for (int i = 0; i < 3; ++i) ceiling.retried(0);
  EXPECT_EQ(ceiling.tokens(), 64u);
}

// ---- properties

class EmbedProperty : public testing::Test, protected Random {
  const testing::ScopedTrace trace_{__FILE__, __LINE__, seed()};
};

TEST_F(EmbedProperty, P_7_SizesAreBoundedAndMonotonic) {
  for (int i = 0; i < kCases; ++i) {
    const size_t n_batch = any(1, 5000);
    const EmbedSizes sizes = {.n_batch = n_batch, .context_size = any(n_batch, 20000)};
    const size_t pending = any(0, 30000);
    const size_t active = any(0, 25000);
    const size_t available = sizes.context_size - std::min(sizes.context_size, active);
    const size_t size = pass_tokens(sizes, pending, active);
    ASSERT_LE(size, std::min({n_batch, available, pending}));
    ASSERT_LE(size, pass_tokens(sizes, pending + any(0, 100), active));
    ASSERT_GE(size, pass_tokens(sizes, pending, active + any(0, 100)));
    ASSERT_EQ(size > 0, pending > 0 && available > 0);
  }
}

TEST_F(EmbedProperty, P_10_RetriesFallToTheFloor) {
  for (int i = 0; i < kCases; ++i) {
    const size_t first = any(1, 100000);
    const Lengths targets = all_targets(first);
    ASSERT_LE(targets.size(), 4u);
    for (size_t k = 1; k < targets.size(); ++k) {
      ASSERT_LT(targets[k], targets[k - 1]);
      ASSERT_EQ(targets[k], std::max<size_t>(targets[k - 1] / 2, 64));
    }
    ASSERT_GE(targets.back(), std::min<size_t>(64, first));
  }
}

}  // namespace
}  // namespace billow::engine
