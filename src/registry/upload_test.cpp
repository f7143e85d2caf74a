#include "registry/upload.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/test_folder.h"
#include "registry/fake_registry.h"

namespace billow::registry {
namespace {

using std::chrono::milliseconds;

// Other faults of uploads are in client_test.cpp.
class UploadTest : public testing::Test {
 protected:
  explicit UploadTest(milliseconds stall_timeout = std::chrono::minutes(1))
      : transport_({.stall_timeout = stall_timeout}) {
    ::setenv("no_proxy", "*", 1);
    options_.first_pause = milliseconds(1);
    options_.sizes = {.min = 50'000, .max = 1'000'000};
    std::ofstream(path_, std::ios::binary) << blob_;
  }

  // Sends the blob. Returns the error, or "".
  std::string send() {
    try {
      upload(session_, path_, digest_, "", options_);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  const std::string blob_ = std::string(130'000, 'x') + "end";
  const store::Digest digest_ = store::digest_of(blob_);
  TestFolder folder_;
  const std::string path_ = folder_.file("blob");
  UploadOptions options_;
  FakeRegistry registry_;
  Transport transport_;
  Session session_{
      transport_, registry_.name(), {.insecure = true, .key = [] { return IdentityKey::make(); }}};
};

class SlowRegistryTest : public UploadTest {
 protected:
  // A busy machine stores each part in this time.
  SlowRegistryTest() : UploadTest(milliseconds(5000)) {}
};

TEST_F(SlowRegistryTest, ARegistryMayCheckABlobForLongerThanAStall) {
  registry_.faults.end_ms = 7000;
  EXPECT_EQ(send(), "");
  EXPECT_EQ(registry_.n_received, blob_.size()) << "no byte is sent twice";
  EXPECT_TRUE(registry_.blob("a/m", digest_.text()) == blob_);
}

class HastyUploadTest : public UploadTest {
 protected:
  HastyUploadTest() : UploadTest(milliseconds(1000)) {}
};

TEST_F(HastyUploadTest, TheLastResponseHasALimit) {
  registry_.faults.end_ms = 2000;
  options_.end_timeout = milliseconds(1000);
  options_.max_attempts = 1;
  const std::string why = send();
  EXPECT_TRUE(why.starts_with("max retries exceeded: ") && why.ends_with("no data moved for 1 s"))
      << why;
}

TEST_F(UploadTest, WaitsForABlobWhoseLastResponseWasLost) {
  registry_.faults.n_lost_ends = 1;
  registry_.faults.n_hidden = 4;
  EXPECT_EQ(send(), "");
  EXPECT_EQ(registry_.faults.n_hidden, 0);
  EXPECT_EQ(registry_.n_received, blob_.size()) << "no byte is sent twice";
}

TEST_F(UploadTest, SendsABlobAgainThatNeverAppears) {
  registry_.faults.n_lost_ends = 1;
  registry_.faults.n_hidden = 8;  // one request more than an attempt waits for
  EXPECT_EQ(send(), "");
  EXPECT_EQ(registry_.n_received, 2 * blob_.size());
  EXPECT_TRUE(registry_.blob("a/m", digest_.text()) == blob_);
}

}  // namespace
}  // namespace billow::registry
