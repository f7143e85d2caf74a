#include "scheduler/runner_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "scheduler/scheduler_world.h"

namespace billow::scheduler {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

class Events final : public RunnerEvents {
 public:
  void load_progressed(const std::string&, uint64_t) override {}
  void load_finished(const std::string&, uint64_t) override { is_loaded = true; }
  void load_failed(const std::string&, const LoadFailure&) override {}
  void memory_changed(const std::string&, const MemoryReport&) override {}
  void found_well(const RunnerWatch&) override { ++n_found_well; }
  void runner_gone(RunnerWatch&, const std::string& why) override {
    detail = why;
    is_gone = true;
  }

  std::atomic<bool> is_loaded{false};
  std::atomic<int> n_found_well{0};
  std::string detail;  // read after is_gone
  std::atomic<bool> is_gone{false};
};

class RunnerWatchTest : public testing::Test {
 protected:
  // Makes a check and waits for its end.
  void look(RunnerWatch& watch) {
    const size_t n_before = fakes_.n_health_requests();
    watch.look();
    ASSERT_TRUE(comes_true([&] { return fakes_.n_health_requests() > n_before; }));
  }

  const Launch launch_ = {.key = "a", .name = "name-a", .weights = "/a"};
  FakeRunners fakes_;
  Events events_;
};

TEST_F(RunnerWatchTest, ReportsAHealthyRunnerAfterALook) {
  RunnerWatch watch(launch_, 1, fakes_.starter(), events_, {.ready = hours(1)});
  ASSERT_TRUE(comes_true([&] { return events_.is_loaded.load(); }));
  EXPECT_EQ(watch.look(), 1u);
  EXPECT_TRUE(comes_true([&] { return events_.n_found_well == 1; }));
  EXPECT_EQ(watch.n_looked(), 1u);
}

// A process that is ending closes its socket first. The reason is the process's end.
TEST_F(RunnerWatchTest, QuickChecksOfADyingRunnerCountAsOne) {
  RunnerWatch watch(launch_, 1, fakes_.starter(), events_,
                    {.ready = hours(1), .min = milliseconds(1)});
  ASSERT_TRUE(comes_true([&] { return events_.is_loaded.load(); }));
  fakes_.change("a", [](FakeScript& script) { script.is_mute = true; });
  for (int i = 0; i < 5; ++i) look(watch);
  EXPECT_FALSE(events_.is_gone);
  fakes_.kill("a", "signal 11 (Segmentation fault)");
  ASSERT_TRUE(comes_true([&] { return events_.is_gone.load(); }));
  EXPECT_EQ(events_.detail, "signal 11 (Segmentation fault)");
  EXPECT_EQ(events_.n_found_well, 0);
}

// On a busy machine, the system reports the end of a process long after its socket has closed.
TEST_F(RunnerWatchTest, ADyingRunnerHasTimeToReportItsEnd) {
  RunnerWatch watch(launch_, 1, fakes_.starter(), events_,
                    {.ready = milliseconds(1), .min = milliseconds(1), .until_end = hours(1)});
  ASSERT_TRUE(comes_true([&] { return events_.is_loaded.load(); }));
  const size_t n_before = fakes_.n_health_requests();
  fakes_.change("a", [](FakeScript& script) { script.is_mute = true; });
  ASSERT_TRUE(comes_true([&] { return fakes_.n_health_requests() >= n_before + 2; }));
  EXPECT_FALSE(events_.is_gone);
  fakes_.kill("a", "signal 11 (Segmentation fault)");
  ASSERT_TRUE(comes_true([&] { return events_.is_gone.load(); }));
  EXPECT_EQ(events_.detail, "signal 11 (Segmentation fault)");
}

TEST_F(RunnerWatchTest, ARunnerThatStaysMuteIsEnded) {
  RunnerWatch watch(
      launch_, 1, fakes_.starter(), events_,
      {.ready = milliseconds(5), .min = milliseconds(1), .until_end = milliseconds(5)});
  ASSERT_TRUE(comes_true([&] { return events_.is_loaded.load(); }));
  fakes_.change("a", [](FakeScript& script) { script.is_mute = true; });
  ASSERT_TRUE(comes_true([&] { return events_.is_gone.load(); }));
  EXPECT_EQ(events_.detail, "it does not respond: no response");
}

}  // namespace
}  // namespace billow::scheduler
