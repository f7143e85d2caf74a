#include "engine/embed/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "base/error.h"
#include "engine/embed/waiting.h"

namespace billow::engine {
namespace {

using Lengths = std::vector<size_t>;

std::string case_name(const std::string& id) {
  std::string name = id;
  std::ranges::replace(name, '-', '_');
  return name;
}
constexpr auto kNameOf = [](const auto& info) { return case_name(info.param.id); };

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

// ---- packing

// Returns the token sums of passes, one after the other, of texts that are all queued.
Lengths pass_sums(EmbedWaiting& waiting, const EmbedSizes& sizes) {
  Lengths sums;
  while (waiting.count().n_texts > 0) {
    std::vector<WaitingText> taken;
    waiting.take(pass_tokens(sizes, waiting.count().n_tokens, 0), sizes.context_size, taken);
    if (taken.empty()) ADD_FAILURE() << "an empty pass";
    if (taken.empty()) break;
    sums.push_back(0);
    for (const WaitingText& text : taken) sums.back() += text.n_tokens;
  }
  return sums;
}

Lengths packed(const Lengths& lengths, size_t n_batch) {
  EmbedWaiting waiting;
  for (size_t i = 0; i < lengths.size(); ++i) waiting.push("a", false, {1, i, lengths[i]});
  return pass_sums(waiting, {.n_batch = n_batch, .context_size = 4 * n_batch});
}

Lengths times(size_t n, size_t length) { return Lengths(n, length); }

struct PackCase {
  const char* id;
  Lengths lengths;
  size_t n_batch;
  Lengths sums;
};
class Packing : public testing::TestWithParam<PackCase> {};

TEST_P(Packing, IsNextFit) {
  const PackCase& row = GetParam();
  EXPECT_EQ(packed(row.lengths, row.n_batch), row.sums);
}

INSTANTIATE_TEST_SUITE_P(
    Table, Packing,
    testing::Values(
        PackCase{"PK-1", {100, 200, 150}, 2048, {450}},
        PackCase{"PK-2", {100, 200, 150}, 450, {450}},
        PackCase{"PK-3", {100, 200, 150}, 300, {300, 150}},
        PackCase{"PK-4", {100, 200, 150}, 299, {100, 200, 150}},
        PackCase{"PK-5", times(50, 41), 2048, {2009, 41}},
        PackCase{"PK-6", times(100, 512), 2048, times(25, 2048)},
        PackCase{"PK-7", times(100, 16), 2048, {1600}},
        PackCase{"PK-8", {2048, 1, 2047, 2, 2046}, 2048, {2048, 2048, 2048}},
        PackCase{"PK-9", {1500, 600, 500, 1400, 100, 2048, 1}, 2048, {1500, 1100, 1500, 2048, 1}},
        PackCase{"PK-10", {2048}, 2048, {2048}},
        PackCase{"PK-13", times(10000, 1), 2048, {2048, 2048, 2048, 2048, 1808}},
        PackCase{"SZ-20", {300, 300}, 500, {300, 300}}),
    kNameOf);

TEST(PackingOf, SZ_18_AFirstTextWithoutSpaceStartsNoPass) {
  EmbedWaiting waiting;
  waiting.push("a", false, {1, 0, 100});
  waiting.push("a", false, {1, 1, 1});
  std::vector<WaitingText> taken;
  waiting.take(2, 2, taken);
  EXPECT_TRUE(taken.empty());
  waiting.take(101, 8192, taken);
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].index, 0u);
}

TEST(PackingOf, SZ_19_NoTextOvertakesAFirstTextThatDoesNotFit) {
  EmbedWaiting waiting;
  waiting.push("a", false, {1, 0, 100});
  waiting.push("b", false, {2, 0, 1});
  std::vector<WaitingText> taken;
  waiting.take(50, 50, taken);
  EXPECT_TRUE(taken.empty());
}

TEST(PackingOf, ATextAboveALoweredCeilingRunsAlone) {
  EmbedWaiting waiting;
  waiting.push("a", false, {1, 0, 900});
  waiting.push("a", false, {1, 1, 1});
  std::vector<WaitingText> taken;
  waiting.take(256, 8192, taken);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].n_tokens, 900u);
}

TEST(PackingOf, CFG_9_SequencesDoNotSplitPasses) {
  for (const size_t n_seq_max : {1u, 2u, 8u, 64u}) {
    EmbedWaiting waiting;
    for (size_t i = 0; i < 100; ++i) waiting.push("a", false, {1, i, 16});
    const EmbedSizes sizes = resolve_sizes({.n_seq_max = n_seq_max}, 512);
    EXPECT_EQ(pass_sums(waiting, sizes), Lengths{1600});
    EXPECT_EQ(text_limit(sizes, 512), 512u);
  }
}

TEST(PackingOf, PK_14_ThreeClientsShareAllPassesInQueueOrder) {
  EmbedWaiting waiting;
  for (size_t i = 0; i < 100; ++i)
    for (const uint64_t job : {1u, 2u, 3u}) waiting.push(std::to_string(job), false, {job, i, 512});
  size_t n_passes = 0;
  size_t next[4] = {};
  while (waiting.count().n_texts > 0) {
    std::vector<WaitingText> taken;
    waiting.take(2048, 8192, taken);
    ++n_passes;
    for (const WaitingText& text : taken) EXPECT_EQ(text.index, next[text.job]++);
  }
  EXPECT_EQ(n_passes, 75u);
}

TEST(PackingOf, PK_16_ALoneTextIsInTheNextPassDespiteAThousandOthers) {
  EmbedWaiting waiting;
  for (size_t i = 0; i < 1000; ++i) waiting.push("many", false, {1, i, 100});
  std::vector<WaitingText> taken;
  waiting.take(2048, 8192, taken);  // in flight
  waiting.push("lone", false, {2, 0, 100});
  taken.clear();
  waiting.take(2048, 8192, taken);
  EXPECT_TRUE(std::ranges::any_of(taken, [](const WaitingText& text) { return text.job == 2; }));
}

TEST(PackingOf, PG_4_EveryOtherPassIsForClientsWithFewTokens) {
  EmbedWaiting waiting;
  for (size_t i = 0; i < 1000; ++i) waiting.push("many", false, {1, i, 100});
  for (const uint64_t lone : {2UL, 3UL}) waiting.push(std::to_string(lone), false, {lone, 0, 43});
  std::vector<std::vector<uint64_t>> passes;
  for (uint64_t lone = 4; lone < 8; ++lone) {
    std::vector<WaitingText> taken;
    waiting.take(2048, 8192, taken);
    std::vector<uint64_t>& jobs = passes.emplace_back();
    for (const WaitingText& text : taken) jobs.push_back(text.job);
    waiting.push(std::to_string(lone), false, {lone, 0, 43});
  }
  EXPECT_EQ(passes[0], (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(passes[1].size(), 21u);  // 20 texts of the first client, and one other
  EXPECT_EQ(std::ranges::count(passes[1], 4u), 1);
  EXPECT_EQ(passes[2], (std::vector<uint64_t>{5}));
  EXPECT_EQ(passes[3].size(), 21u);
}

TEST(PackingOf, PG_4_AShortPassAndAPassOfManyClientsAreShared) {
  EmbedWaiting waiting;
  for (size_t i = 0; i < 4; ++i) waiting.push("many", false, {1, i, 100});
  waiting.push("lone", false, {2, 0, 43});
  std::vector<WaitingText> taken;
  waiting.take(443, 8192, taken);
  EXPECT_EQ(taken.size(), 5u);
  taken.clear();
  for (uint64_t job = 10; job < 30; ++job) waiting.push(std::to_string(job), false, {job, 0, 100});
  waiting.take(2000, 8192, taken);
  EXPECT_EQ(taken.size(), 20u);
}

TEST(PackingOf, PG_4_ClientsWithFewTokensAlsoPrecedeTheRestOfALargeOne) {
  EmbedWaiting waiting;
  for (size_t i = 0; i < 13; ++i) waiting.push("many", false, {1, i, 100});
  waiting.push("lone", false, {2, 0, 43});
  std::vector<WaitingText> taken;
  waiting.take(1343, 8192, taken);
  EXPECT_EQ(taken.size(), 1u);
}

TEST(PackingOf, PK_16_BulkTextsWaitForAllOthers) {
  EmbedWaiting waiting;
  for (size_t i = 0; i < 10; ++i) waiting.push("bulk", true, {1, i, 100});
  waiting.push("lone", false, {2, 0, 100});
  std::vector<WaitingText> taken;
  waiting.take(2048, 8192, taken);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].job, 2u);
  waiting.take(2048, 8192, taken);
  EXPECT_EQ(taken.size(), 11u);
}

// ---- fewer passes than with a fixed number of sequences

// Returns the number of passes of texts in order, each of at most max_texts texts.
size_t n_passes_by_texts(const Lengths& lengths, size_t max_texts, size_t n_batch) {
  size_t n_passes = 0;
  size_t n_texts = max_texts;
  size_t n_tokens = 0;
  for (const size_t length : lengths) {
    if (n_texts == max_texts || n_tokens + length > n_batch) {
      ++n_passes;
      n_texts = 0;
      n_tokens = 0;
    }
    ++n_texts;
    n_tokens += length;
  }
  return n_passes;
}

// Lengths like those of real texts: log-normal, from 3 tokens to a model's 512.
Lengths mixed_lengths(size_t n, double median, unsigned seed) {
  std::mt19937 random(seed);
  std::lognormal_distribution<double> length(std::log(median), 0.75);
  Lengths lengths(n);
  for (size_t& value : lengths)
    value = static_cast<size_t>(std::clamp(std::round(length(random)), 3.0, 512.0));
  return lengths;
}

TEST(PackingOf, PG_1_TokensMakeAThirdFewerPassesThanEightSequences) {
  EXPECT_EQ(n_passes_by_texts(times(100, 16), 8, 2048), 13u);  // PK-7
  EXPECT_EQ(n_passes_by_texts(times(100, 16), 2, 2048), 50u);
  EXPECT_EQ(n_passes_by_texts(times(9, 512), 8, 2048), 3u);  // limited by tokens, too
  for (unsigned seed = 0; seed < 20; ++seed) {
    Lengths lengths = mixed_lengths(1000, 60, seed);
    std::ranges::nth_element(lengths, lengths.begin() + 500);
    ASSERT_NEAR(static_cast<double>(lengths[500]), 60.0, 6.0);
    lengths = mixed_lengths(1000, 60, seed);
    EXPECT_LE(10 * packed(lengths, 2048).size(), 7 * n_passes_by_texts(lengths, 8, 2048));
    const Lengths small = mixed_lengths(1000, 9, seed);
    EXPECT_LE(10 * packed(small, 2048).size(), n_passes_by_texts(small, 8, 2048));
  }
}

// ---- properties

constexpr int kCases = 10000;

class EmbedProperty : public testing::Test {
 protected:
  size_t any(size_t min, size_t max) {
    return std::uniform_int_distribution<size_t>(min, max)(random_);
  }
  const unsigned seed_ = std::random_device()();
  std::mt19937 random_{seed_};
  const testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
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

// With one client.
TEST_F(EmbedProperty, P_2_P_3_P_8_P_9_NextFitLosesNothingAndWastesLittle) {
  for (int i = 0; i < kCases; ++i) {
    const size_t n_batch = any(1, 300);
    Lengths lengths(any(1, 60));
    for (size_t& length : lengths) length = any(1, n_batch);
    const size_t total = std::reduce(lengths.begin(), lengths.end());
    const Lengths sums = packed(lengths, n_batch);
    ASSERT_EQ(std::reduce(sums.begin(), sums.end()), total);
    ASSERT_LE(sums.size(), 2 * ((total + n_batch - 1) / n_batch));
    size_t before = 0;
    for (size_t k = 0; k < sums.size(); ++k) {
      ASSERT_GT(sums[k], 0u);
      ASSERT_LE(sums[k], n_batch);
      ASSERT_LE(k, before * 2 / n_batch + 2);
      if (k > 0) {
        ASSERT_GT(sums[k - 1] + sums[k], n_batch);
      }
      before += sums[k];
    }
  }
}

// Several clients come, go and are cancelled. Each text is taken once or dropped once, and a
// client's texts keep their order. A client's k-th text comes within k turns of the others.
TEST_F(EmbedProperty, P_1_P_5_P_6_EveryTextIsTakenOrDroppedOnceAndInOrder) {
  for (int i = 0; i < kCases; ++i) {
    EmbedWaiting waiting;
    const size_t n_jobs = any(1, 6);
    std::vector<size_t> n_left(n_jobs);
    std::vector<size_t> next(n_jobs, 0);
    size_t n_tokens = 0;
    for (size_t job = 0; job < n_jobs; ++job) {
      n_left[job] = any(1, 12);
      for (size_t k = 0; k < n_left[job]; ++k) {
        const size_t length = any(1, 64);
        waiting.push(std::to_string(job % 4), job % 3 == 2, {job, k, length});
        n_tokens += length;
      }
    }
    while (waiting.count().n_texts > 0) {
      if (any(0, 4) == 0) {
        const size_t job = any(0, n_jobs - 1);
        const auto gone = waiting.remove(std::to_string(job % 4), job % 3 == 2, job);
        ASSERT_EQ(gone.n_texts, n_left[job]);
        n_left[job] = 0;
        n_tokens -= gone.n_tokens;
      }
      std::vector<WaitingText> taken;
      if (const WaitingText* first = waiting.next(); first != nullptr && any(0, 3) == 0) {
        taken.push_back(*first);
        waiting.pop();
      } else {
        waiting.take(64, 64, taken);
      }
      for (const WaitingText& text : taken) {
        ASSERT_EQ(text.index, next[text.job]++);
        --n_left[text.job];
        n_tokens -= text.n_tokens;
      }
      ASSERT_EQ(waiting.count().n_tokens, n_tokens);
    }
    ASSERT_EQ(n_tokens, 0u);
    for (const size_t n : n_left) ASSERT_EQ(n, 0u);
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
