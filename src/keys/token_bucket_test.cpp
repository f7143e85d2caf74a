#include "keys/token_bucket.h"

#include <gtest/gtest.h>

#include <random>

namespace billow::keys {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(TokenBucket, AdmitsUntilItIsEmptyAndRefillsWithTime) {
  const Time start{};
  TokenBucket bucket(60, start);  // one token per second
  EXPECT_TRUE(bucket.admits(start));
  bucket.take(100, start);
  EXPECT_FALSE(bucket.admits(start));
  EXPECT_EQ(bucket.seconds_until_admits(start), 41);
  EXPECT_FALSE(bucket.admits(start + seconds(40)));
  EXPECT_TRUE(bucket.admits(start + seconds(41)));
  EXPECT_DOUBLE_EQ(bucket.level(), 1.0);
  EXPECT_TRUE(bucket.admits(start + seconds(1000)));
  EXPECT_DOUBLE_EQ(bucket.level(), 60.0);  // never more than a minute's tokens
}

TEST(TokenBucket, WithoutALimitAdmitsAlways) {
  const Time start{};
  TokenBucket bucket(0, start);
  bucket.take(1'000'000, start);
  EXPECT_TRUE(bucket.admits(start));
}

TEST(TokenBucket, KeepsItsLevelWhenTheLimitChanges) {
  const Time start{};
  TokenBucket bucket(60, start);
  bucket.take(90, start);
  bucket.set_limit(600, start);
  EXPECT_FALSE(bucket.admits(start));
  EXPECT_EQ(bucket.seconds_until_admits(start), 4);  // 30 tokens at 10 per second, and more than 0
  bucket.set_limit(0, start);
  EXPECT_TRUE(bucket.admits(start));
  bucket.set_limit(60, start);
  EXPECT_DOUBLE_EQ(bucket.level(), 60.0);
}

TEST(TokenBucket, ClockThatGoesBackAddsNothing) {
  const Time start{};
  TokenBucket bucket(60, start + seconds(10));
  bucket.take(60, start + seconds(10));
  EXPECT_FALSE(bucket.admits(start));
  EXPECT_FALSE(bucket.admits(start + seconds(10)));
}

// Random clients against the promise of the header: over any time, tokens that requests take are at
// most the refill, one minute, and what the last request takes too much.
TEST(TokenBucket, NeverGivesMoreThanItsRateAndShowsWhenToComeBack) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const uint64_t per_minute = 1 + random() % 100'000;
    const uint64_t max_request = 1 + random() % 20'000;
    const Time start{};
    Time now = start;
    TokenBucket bucket(per_minute, now);
    double n_taken = 0;
    double n_last = 0;
    for (int i = 0; i < 500; ++i) {
      now += milliseconds(random() % 5'000);
      if (bucket.admits(now)) {
        n_last = static_cast<double>(random() % (max_request + 1));
        bucket.take(static_cast<uint64_t>(n_last), now);
        n_taken += n_last;
      } else {
        TokenBucket later = bucket;
        const int64_t wait = later.seconds_until_admits(now);
        ASSERT_GE(wait, 1);
        if (wait > 1) {
          TokenBucket early = bucket;
          // A second earlier, the bucket is still empty.
          EXPECT_FALSE(early.admits(now + seconds(wait - 1) - milliseconds(1))) << seed;
        }
        EXPECT_TRUE(later.admits(now + seconds(wait))) << seed;
      }
      const double minutes = std::chrono::duration<double>(now - start).count() / 60.0;
      const auto rate = static_cast<double>(per_minute);
      EXPECT_LE(n_taken, rate * minutes + rate + n_last + 1e-6) << seed;
      EXPECT_LE(bucket.level(), rate);
    }
  }
}

}  // namespace
}  // namespace billow::keys
