#include "engine/embed/waiting.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "engine/embed/plan.h"
#include "engine/embed/test_cases.h"

namespace billow::engine {
namespace {

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

class WaitingProperty : public testing::Test, protected Random {
  const testing::ScopedTrace trace_{__FILE__, __LINE__, seed()};
};

// With one client.
TEST_F(WaitingProperty, P_2_P_3_P_8_P_9_NextFitLosesNothingAndWastesLittle) {
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
TEST_F(WaitingProperty, P_1_P_5_P_6_EveryTextIsTakenOrDroppedOnceAndInOrder) {
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

}  // namespace
}  // namespace billow::engine
