#include "kv/prefix_digest.h"

#include <gtest/gtest.h>

#include <numeric>

namespace billow::kv {
namespace {

std::vector<int32_t> count(size_t n) {
  std::vector<int32_t> tokens(n);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

TEST(PrefixDigest, ReturnsOneForEachWholeBlock) {
  EXPECT_TRUE(prefix_digests("m", count(63)).empty());
  EXPECT_EQ(prefix_digests("m", count(64)).size(), 1u);
  EXPECT_EQ(prefix_digests("m", count(200)).size(), 3u);
}

// Expected values from another implementation: python3 -c 'import struct, xxhash;
// d = xxhash.xxh64(b"m").intdigest();
// print(xxhash.xxh64(struct.pack("<Q64i", d, *range(64))).hexdigest())'
TEST(PrefixDigest, EqualsXxh64OfOtherImplementations) {
  const std::vector<uint64_t> digests = prefix_digests("m", count(128));
  EXPECT_EQ(digests.at(0), 0x0504abbbf2b5306bu);
  EXPECT_EQ(digests.at(1), 0xa78255403030185bu);
}

TEST(PrefixDigest, DependsOnTheRootAndOnAllTokensBefore) {
  std::vector<int32_t> tokens = count(128);
  const std::vector<uint64_t> digests = prefix_digests("m", tokens);
  EXPECT_NE(prefix_digests("n", tokens).at(1), digests.at(1));
  tokens[3] = 9;
  EXPECT_NE(prefix_digests("m", tokens).at(1), digests.at(1));
  tokens[3] = 3;
  tokens[100] = 9;
  EXPECT_EQ(prefix_digests("m", tokens).at(0), digests.at(0));
  EXPECT_NE(prefix_digests("m", tokens).at(1), digests.at(1));
}

}  // namespace
}  // namespace billow::kv
