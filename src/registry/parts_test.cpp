#include "registry/parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace billow::registry {
namespace {

TEST(Parts, HaveTheSizesOfOllama) {
  EXPECT_TRUE(plan_parts(0).empty());
  EXPECT_EQ(plan_parts(1), (std::vector<Part>{{0, 1, 0}}));
  EXPECT_EQ(plan_parts(100'000'000).size(), 1u);
  EXPECT_EQ(plan_parts(100'000'001), (std::vector<Part>{{0, 100'000'000, 0}, {100'000'000, 1, 0}}));
  EXPECT_EQ(plan_parts(1'600'000'000).size(), 16u);
  EXPECT_EQ(plan_parts(4'800'000'000).size(), 16u);
  EXPECT_EQ(plan_parts(4'800'000'000)[1], (Part{300'000'000, 300'000'000, 0}));
  EXPECT_EQ(plan_parts(4'800'000'007).size(), 17u) << "the last one has the rest";
  EXPECT_EQ(plan_parts(20'500'000'000).size(), 21u);
}

TEST(Parts, CoverBlobsOfAnySize) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 2000; ++i) {
    const uint64_t n_bytes = random() >> (24 + random() % 40);
    uint64_t end = 0;
    for (const Part& part : plan_parts(n_bytes)) {
      EXPECT_EQ(part.offset, end);
      EXPECT_GT(part.size, 0u);
      EXPECT_EQ(part.completed, 0u);
      end = part.end();
    }
    EXPECT_EQ(end, n_bytes);
  }
}

TEST(PartFile, HasOneLine) {
  const Part part{100, 50, 7};
  EXPECT_EQ(to_text(2, part), R"({"N":2,"Offset":100,"Size":50,"Completed":7})");
  EXPECT_EQ(parse_part(to_text(2, part)), (IndexedPart{2, part}));
  EXPECT_EQ(parse_part(to_text(2, part) + "\n"), (IndexedPart{2, part}));
}

TEST(PartFile, BrokenTextIsRefused) {
  for (const char* text : {
           "",
           "{",
           "[]",
           "7",
           R"({"N":0,"Offset":0,"Size":1})",
           R"({"N":-1,"Offset":0,"Size":1,"Completed":0})",
           R"({"N":0,"Offset":0.5,"Size":1,"Completed":0})",
           R"({"N":0,"Offset":"0","Size":1,"Completed":0})",
           R"({"N":0,"Offset":0,"Size":1,"Completed":2})",
           R"({"N":0,"Offset":18446744073709551615,"Size":1,"Completed":0})",
           R"({"N":0,"Offset":0,"Size":18446744073709551615,"Completed":0})",
       }) {
    EXPECT_FALSE(parse_part(text)) << text;
  }
}

std::vector<IndexedPart> indexed(const std::vector<Part>& parts) {
  std::vector<IndexedPart> all;
  for (const Part& part : parts) all.push_back({all.size(), part});
  return all;
}

TEST(ResumedParts, AcceptPartsInAnyOrder) {
  std::mt19937 random(5);
  for (const uint64_t n_bytes : {1ull, 99'999'999ull, 350'000'000ull, 40'000'000'123ull}) {
    std::vector<Part> parts = plan_parts(n_bytes);
    for (Part& part : parts) part.completed = part.size / 3;
    std::vector<IndexedPart> found = indexed(parts);
    std::shuffle(found.begin(), found.end(), random);
    EXPECT_EQ(resumed_parts(found, n_bytes), parts);
    EXPECT_EQ(completed_bytes(parts) > 0, n_bytes >= 3);
  }
}

TEST(ResumedParts, RefusePartsThatDoNotCoverTheBlob) {
  const std::vector<Part> parts = plan_parts(350'000'000);
  EXPECT_TRUE(resumed_parts(indexed(parts), 350'000'000));
  EXPECT_FALSE(resumed_parts({}, 350'000'000));
  EXPECT_FALSE(resumed_parts({}, 0));
  EXPECT_FALSE(resumed_parts(indexed(parts), 350'000'001));
  EXPECT_FALSE(resumed_parts(indexed(parts), 349'999'999));
  for (size_t i = 0; i < parts.size(); ++i) {
    std::vector<IndexedPart> found = indexed(parts);
    found.erase(found.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_FALSE(resumed_parts(found, 350'000'000)) << "without part " << i;
    found = indexed(parts);
    found.push_back(found[i]);
    EXPECT_FALSE(resumed_parts(found, 350'000'000)) << "with part " << i << " twice";
    found = indexed(parts);
    ++found[i].part.offset;
    EXPECT_FALSE(resumed_parts(found, 350'000'000)) << "part " << i << " elsewhere";
  }
  EXPECT_FALSE(resumed_parts({{0, {0, 0, 0}}, {1, {0, 350'000'000, 0}}}, 350'000'000));
}

}  // namespace
}  // namespace billow::registry
