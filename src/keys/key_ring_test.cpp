#include "keys/key_ring.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "base/test_folder.h"

namespace billow::keys {
namespace {

using std::chrono::seconds;

std::string table(const std::string& name, const std::string& key, const std::string& rest = "") {
  return "[[key]]\nname = \"" + name + "\"\nsha256 = \"" + store::digest_of(key).hex() + "\"\n" +
         rest;
}

class KeyRingTest : public ::testing::Test {
 protected:
  void write(const std::string& text) {
    // Replaces the file by a rename, so that a reader never sees half a file.
    write_test_file(path_ + ".new", text);
    std::filesystem::rename(path_ + ".new", path_);
  }
  // Sees a change and reads it.
  void refresh(KeyRing& ring) const {
    ring.refresh(now_);
    ring.refresh(now_);
  }
  const TestFolder folder_;
  const std::string path_ = folder_.path() + "/keys.toml";
  const Time now_{};
};

TEST_F(KeyRingTest, FindsTheAccountOfAKey) {
  write(table("ann", "secret-a") + table("bob", "secret-b", "roles = [\"manage\"]\n"));
  const KeyRing ring(path_, now_);
  ASSERT_NE(ring.find("secret-a"), nullptr);
  EXPECT_EQ(ring.find("secret-a")->name(), "ann");
  EXPECT_TRUE(ring.find("secret-b")->roles().has(Role::kManage));
  EXPECT_FALSE(ring.find("secret-b")->roles().has(Role::kUse));
  EXPECT_EQ(ring.find("secret-c"), nullptr);
  EXPECT_EQ(ring.find(""), nullptr);
  EXPECT_EQ(ring.find(store::digest_of("secret-a").hex()), nullptr);  // a digest is no key
  EXPECT_EQ(ring.account("bob"), ring.find("secret-b"));
}

TEST_F(KeyRingTest, NeedsItsFileAtTheStart) {
  EXPECT_THROW(KeyRing(path_, now_), Error);
  write("[[key]]\n");
  EXPECT_THROW(KeyRing(path_, now_), Error);
}

TEST_F(KeyRingTest, ReadsAChangedFileAndKeepsTheCountsOfAccounts) {
  write(table("ann", "old", "tokens_per_minute = 60\n"));
  KeyRing ring(path_, now_);
  const std::shared_ptr<Account> ann = ring.find("old");
  ann->take(100, 20, now_);
  write(table("ann", "new", "tokens_per_minute = 60\n") + table("bob", "b"));
  refresh(ring);
  EXPECT_EQ(ring.find("old"), nullptr);
  EXPECT_EQ(ring.find("new"), ann);
  EXPECT_NE(ring.find("b"), nullptr);
  EXPECT_EQ(ann->counts().n_evaluated, 100U);
  EXPECT_FALSE(Account::begin(ann, true, now_).use.has_value());  // the budget stays used
  EXPECT_EQ(ring.counts().n_read_failures, 0U);
}

TEST_F(KeyRingTest, KeepsItsKeysWhenTheFileIsBroken) {
  write(table("ann", "a"));
  KeyRing ring(path_, now_);
  write("[[key]\n");
  refresh(ring);
  refresh(ring);  // the same fault counts once
  EXPECT_NE(ring.find("a"), nullptr);
  EXPECT_EQ(ring.counts().n_read_failures, 1U);
  std::filesystem::remove(path_);
  refresh(ring);
  EXPECT_NE(ring.find("a"), nullptr);
  EXPECT_EQ(ring.counts().n_read_failures, 2U);
  write(table("bob", "b"));
  refresh(ring);
  EXPECT_EQ(ring.find("a"), nullptr);
  EXPECT_NE(ring.find("b"), nullptr);
}

// An editor may empty the file and write it again. It takes a moment.
TEST_F(KeyRingTest, IgnoresAFileThatIsBeingWritten) {
  write(table("ann", "a"));
  KeyRing ring(path_, now_);
  for (const std::string& text : {std::string(), table("bob", "b")}) {
    write_test_file(path_, text);
    ring.refresh(now_);
    EXPECT_NE(ring.find("a"), nullptr);
  }
  write_test_file(path_, table("bob", "b") + table("ann", "a"));
  refresh(ring);
  EXPECT_NE(ring.find("a"), nullptr);
  EXPECT_NE(ring.find("b"), nullptr);
  EXPECT_EQ(ring.counts().n_read_failures, 0U);
}

TEST_F(KeyRingTest, ReadsAFileThatChangesAllTheTime) {
  write(table("ann", "0"));
  KeyRing ring(path_, now_);
  for (int i = 1; i <= 20; ++i) {
    write(table("ann", std::to_string(i)) + "# version " +
          std::string(static_cast<size_t>(i), '.'));
    ring.refresh(now_);
    EXPECT_EQ(ring.find(std::to_string(i)) != nullptr, i % 10 == 0) << i;
  }
}

TEST_F(KeyRingTest, ReadsAgainWhatTheSystemFailedToRead) {
  write(table("ann", "a"));
  KeyRing ring(path_, now_);
  write(table("bob", "b"));
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none = {.rlim_cur = 1, .rlim_max = limit.rlim_max};  // no file can be opened
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  refresh(ring);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_NE(ring.find("a"), nullptr);
  EXPECT_EQ(ring.counts().n_read_failures, 1U);
  refresh(ring);
  EXPECT_EQ(ring.find("a"), nullptr);
  EXPECT_NE(ring.find("b"), nullptr);
}

TEST_F(KeyRingTest, LimitsRequestsAtTheSameTime) {
  write(table("ann", "a", "max_requests = 2\n"));
  const KeyRing ring(path_, now_);
  const std::shared_ptr<Account> ann = ring.find("a");
  Account::Begin first = Account::begin(ann, true, now_);
  const Account::Begin second = Account::begin(ann, true, now_);
  const Account::Begin third = Account::begin(ann, true, now_);
  EXPECT_TRUE(first.use && second.use);
  ASSERT_FALSE(third.use);
  EXPECT_EQ(third.refusal, Refusal::kMaxRequests);
  EXPECT_EQ(third.retry_after, 1);
  EXPECT_NE(third.why.find("'ann' may have 2 requests"), std::string::npos) << third.why;
  EXPECT_TRUE(Account::begin(ann, false, now_).use);  // a route without a limit
  first.use.reset();
  EXPECT_TRUE(Account::begin(ann, true, now_).use);
  const AccountCounts counts = ann->counts();
  EXPECT_EQ(counts.n_running, 1U);
  EXPECT_EQ(counts.n_requests, 4U);
  EXPECT_EQ(counts.n_refused[static_cast<size_t>(Refusal::kMaxRequests)], 1U);
}

TEST_F(KeyRingTest, RequestsWithoutALimitTakeNoPlace) {
  write(table("ann", "a", "max_requests = 1\n"));
  const KeyRing ring(path_, now_);
  const std::shared_ptr<Account> ann = ring.find("a");
  Account::Begin events = Account::begin(ann, false, now_);
  Account::Begin first = Account::begin(ann, true, now_);
  ASSERT_TRUE(events.use && first.use);
  EXPECT_FALSE(Account::begin(ann, true, now_).use);
  EXPECT_EQ(ann->counts().n_running, 2U);
  events.use.reset();
  EXPECT_FALSE(Account::begin(ann, true, now_).use) << "the limited one still runs";
  std::optional<Account::Use> moved = std::move(first.use);
  first.use.reset();
  EXPECT_FALSE(Account::begin(ann, true, now_).use);
  moved.reset();
  EXPECT_TRUE(Account::begin(ann, true, now_).use);
  EXPECT_EQ(ann->counts().n_running, 0U);
}

TEST_F(KeyRingTest, LimitsTokensPerMinute) {
  write(table("ann", "a", "tokens_per_minute = 60\n"));
  const KeyRing ring(path_, now_);
  const std::shared_ptr<Account> ann = ring.find("a");
  EXPECT_TRUE(Account::begin(ann, true, now_).use);
  ann->take(50, 40, now_);
  const Account::Begin refused = Account::begin(ann, true, now_);
  ASSERT_FALSE(refused.use);
  EXPECT_EQ(refused.refusal, Refusal::kTokens);
  EXPECT_EQ(refused.retry_after, 31);
  EXPECT_TRUE(Account::begin(ann, false, now_).use);
  EXPECT_TRUE(Account::begin(ann, true, now_ + seconds(31)).use);
}

// Sanitizers check look-ups, requests and new files at the same time.
TEST_F(KeyRingTest, ManyThreadsUseOneRing) {
  write(table("ann", "a", "max_requests = 3\n"));
  KeyRing ring(path_, now_);
  std::atomic<int> n_running = 0;
  std::atomic<int> n_most = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 300; ++i) {
          const std::shared_ptr<Account> ann = ring.find("a");
          ASSERT_NE(ann, nullptr);
          const Account::Begin begin = Account::begin(ann, true, now_);
          if (!begin.use) continue;
          const int n = ++n_running;
          for (int most = n_most; most < n && !n_most.compare_exchange_weak(most, n);) continue;
          ann->take(1, 2, now_);
          --n_running;
        }
      });
    }
    for (int i = 0; i < 50; ++i) {
      write(table("ann", "a", "max_requests = 3\n") + "# version " + std::to_string(i) + "\n");
      refresh(ring);
      ring.counts();
    }
  }
  EXPECT_LE(n_most, 3);
  const AccountCounts counts = ring.account("ann")->counts();
  EXPECT_EQ(counts.n_running, 0U);
  EXPECT_EQ(counts.n_evaluated, counts.n_requests);
}

}  // namespace
}  // namespace billow::keys
