#include "registry/following_digest.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/error.h"
#include "base/test_folder.h"

namespace billow::registry {
namespace {

class FollowingDigestTest : public testing::Test {
 protected:
  std::string file(const std::string& bytes) const {
    const std::string path = folder_.path() + "/file";
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  TestFolder folder_;
};

TEST_F(FollowingDigestTest, HashesBytesThatArriveInAnySteps) {
  std::mt19937 random(1);
  std::string bytes(5'000'003, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  const std::string path = file(bytes);
  for (int round = 0; round < 20; ++round) {
    std::atomic<uint64_t> n_hashed{0};
    FollowingDigest digest(path, [&](uint64_t n) { n_hashed = n; });
    for (uint64_t n = 0; n < bytes.size() && round % 5 != 0; n += random() % 700'000)
      digest.advance(n);
    EXPECT_EQ(digest.finish(bytes.size(), {}), store::digest_of(bytes));
    EXPECT_EQ(n_hashed, bytes.size());
  }
}

TEST_F(FollowingDigestTest, HashesAnEmptyFile) {
  FollowingDigest digest(file(""));
  EXPECT_EQ(digest.finish(0, {}), store::digest_of(""));
}

TEST_F(FollowingDigestTest, CanBeDestroyedBeforeAllBytesArrive) {
  FollowingDigest digest(file("abc"));
  digest.advance(2);
}

TEST_F(FollowingDigestTest, StopEndsTheWait) {
  // A file that should become longer makes the reader wait for bytes. A pipe would block the
  // reader.
  FollowingDigest digest(file("abc"));
  std::stop_source stop;
  stop.request_stop();
  const auto found = digest.finish(3, stop.get_token());
  EXPECT_TRUE(!found || *found == store::digest_of("abc"));
}

TEST_F(FollowingDigestTest, FailsIfTheFileCannotBeRead) {
  FollowingDigest shorter(file("abc"));
  EXPECT_THROW(shorter.finish(4, {}), Error);
  FollowingDigest none(folder_.path() + "/none");
  EXPECT_THROW(none.finish(1, {}), Error);
}

}  // namespace
}  // namespace billow::registry
