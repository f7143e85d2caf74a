#include "arch/encoders/text_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace billow::arch {
namespace {

std::vector<uint32_t> ends_of(const std::vector<uint32_t>& lengths) {
  std::vector<uint32_t> ends;
  for (const uint32_t length : lengths) ends.push_back((ends.empty() ? 0 : ends.back()) + length);
  return ends;
}

// Returns the length of each part, in rows.
std::vector<uint32_t> rows_of(const TextParts& parts, const std::vector<uint32_t>& ends) {
  std::vector<uint32_t> rows;
  uint32_t begin = 0;
  for (const size_t last : parts.ends) {
    rows.push_back(ends[last - 1] - begin);
    begin = ends[last - 1];
  }
  return rows;
}

TEST(TextParts, SharesManyTextsEvenly) {
  const std::vector<uint32_t> ends = ends_of(std::vector<uint32_t>(48, 42));
  const TextParts parts = plan_text_parts(ends, 2, true);
  EXPECT_TRUE(parts.alone);
  EXPECT_EQ(rows_of(parts, ends), std::vector<uint32_t>(8, 252));
}

TEST(TextParts, GivesEachThreadOneOfFewEqualTexts) {
  for (const size_t n_threads : {2u, 3u, 16u}) {
    const std::vector<uint32_t> ends = ends_of(std::vector<uint32_t>(n_threads, 42));
    const TextParts parts = plan_text_parts(ends, n_threads, true);
    EXPECT_TRUE(parts.alone);
    EXPECT_EQ(rows_of(parts, ends), std::vector<uint32_t>(n_threads, 42));
  }
}

TEST(TextParts, SharesPartsIfThreadsWouldIdle) {
  for (const std::vector<uint32_t>& lengths :
       {std::vector<uint32_t>{42}, {300, 20}, {40, 40, 40}, {512, 400}}) {
    const std::vector<uint32_t> ends = ends_of(lengths);
    const TextParts parts = plan_text_parts(ends, 2, true);
    // The longest part has 512 rows, an eighth more than a thread's share of 456.
    const bool alone = lengths.size() == 2 && lengths[1] == 400;
    EXPECT_EQ(parts.alone, alone) << lengths.size();
    if (!alone) {
      EXPECT_EQ(parts.ends, std::vector<size_t>{lengths.size()});
    }
  }
}

TEST(TextParts, SharesPartsForLargeModelsLongTextsAndOneThread) {
  const std::vector<uint32_t> ends = ends_of(std::vector<uint32_t>(48, 42));
  for (const TextParts& parts : {plan_text_parts(ends, 2, false), plan_text_parts(ends, 1, true)}) {
    EXPECT_FALSE(parts.alone);
    EXPECT_EQ(rows_of(parts, ends), (std::vector<uint32_t>{504, 504, 504, 504}));
  }
  const std::vector<uint32_t> longer = ends_of({513, 513});
  const TextParts parts = plan_text_parts(longer, 2, true);
  EXPECT_FALSE(parts.alone);
  EXPECT_EQ(rows_of(parts, longer), (std::vector<uint32_t>{513, 513}));
}

TEST(TextParts, PutsEachTextIntoOnePartInOrder) {
  std::mt19937 random(1);
  for (int run = 0; run < 2000; ++run) {
    std::vector<uint32_t> lengths(1 + random() % 60);
    for (uint32_t& length : lengths) length = 1 + static_cast<uint32_t>(random()) % 512;
    const std::vector<uint32_t> ends = ends_of(lengths);
    const size_t n_threads = 1 + random() % 16;
    const TextParts parts = plan_text_parts(ends, n_threads, true);
    ASSERT_TRUE(std::ranges::is_sorted(parts.ends));
    ASSERT_TRUE(std::ranges::adjacent_find(parts.ends) == parts.ends.end());
    ASSERT_EQ(parts.ends.back(), lengths.size());
    const size_t max = parts.alone ? kRowsAlone : rows_together(n_threads);
    const size_t longest = *std::ranges::max_element(lengths);
    ASSERT_LE(std::ranges::max(rows_of(parts, ends)), std::max(max, longest));
    ASSERT_TRUE(!parts.alone || n_threads > 1);
    if (parts.alone) {
      ASSERT_LE(std::ranges::max(rows_of(parts, ends)), max_rows_alone(ends.back(), n_threads));
    }
  }
  EXPECT_TRUE(plan_text_parts({}, 2, true).ends.empty());
}

}  // namespace
}  // namespace billow::arch
