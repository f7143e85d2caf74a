#include "process/child_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/test_folder.h"

namespace billow::process {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

ChildOptions shell(const std::string& script) {
  return {.command = {"/bin/sh", "-c", script}, .name = "test"};
}

std::string end_of(const std::string& script) {
  ChildProcess child(shell(script));
  const Clock::time_point start = Clock::now();
  while (child.how_it_ended().empty() && Clock::now() - start < seconds(60))
    std::this_thread::sleep_for(milliseconds(1));
  return child.how_it_ended();
}

TEST(ChildProcess, ReportsHowItEnded) {
  EXPECT_EQ(end_of("exit 0"), "exit status 0");
  EXPECT_EQ(end_of("exit 3"), "exit status 3");
  EXPECT_EQ(end_of("echo one >&2; echo 'billow: error: two' >&2; exit 1"), "exit status 1: two");
  EXPECT_EQ(end_of("printf 'no end' >&2; exit 1"), "exit status 1: no end");
  EXPECT_EQ(end_of("kill -9 $$"), "signal 9 (Killed)");
  EXPECT_EQ(end_of("echo nothing; kill -11 $$"), "signal 11 (Segmentation fault)");
}

TEST(ChildProcess, DropsALineThatIsTooLong) {
  EXPECT_EQ(end_of("head -c 100000 /dev/zero | tr '\\0' a >&2; echo >&2; echo last >&2; exit 2"),
            "exit status 2: last");
  // One byte too long, at the end of the log
  EXPECT_EQ(end_of("echo first >&2; head -c 4097 /dev/zero | tr '\\0' a >&2; exit 2"),
            "exit status 2: first");
}

TEST(ChildProcess, WaitsUntilItsLogIsRead) {
  const TestFolder folder;
  const std::string written = folder.file("written");
  std::atomic<int> n_lines{0};
  ChildOptions options =
      shell("for i in 1 2 3 4 5; do echo $i >&2; done; : > '" + written + "'; exec sleep 100");
  options.on_line = [&](std::string_view) {
    std::this_thread::sleep_for(milliseconds(20));
    ++n_lines;
    return std::string();
  };
  ChildProcess child(std::move(options));
  while (!std::filesystem::exists(written)) std::this_thread::sleep_for(milliseconds(1));
  child.wait_for_log(std::chrono::minutes(5));
  EXPECT_EQ(n_lines, 5);
  child.wait_for_log(std::chrono::minutes(5));  // returns immediately
  child.end({});
  child.wait_for_log(std::chrono::minutes(5));
}

TEST(ChildProcess, EndSendsSigtermThenSigkill) {
  ChildProcess polite(shell("exec sleep 100"));
  polite.end(seconds(20));
  EXPECT_EQ(polite.how_it_ended(), "signal 15 (Terminated)");
  polite.end(seconds(20));  // does nothing
  const TestFolder folder;
  const std::string ready = folder.file("ready");  // exists once the child ignores SIGTERM
  ChildProcess stubborn(shell("trap '' TERM; : > '" + ready + "'; while :; do sleep 0.05; done"));
  const Clock::time_point start = Clock::now();
  while (!std::filesystem::exists(ready) && Clock::now() - start < seconds(60))
    std::this_thread::sleep_for(milliseconds(1));
  stubborn.end(milliseconds(50));
  EXPECT_EQ(stubborn.how_it_ended(), "signal 9 (Killed)");
}

TEST(ChildProcess, LeavesNoZombieAndNoOpenFile) {
  const auto n_open = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto n_before = n_open();
  for (int i = 0; i < 20; ++i) {
    pid_t pid = 0;
    {
      ChildProcess child(shell("exec sleep 100"));
      pid = child.pid();
    }
    EXPECT_EQ(::kill(pid, 0), -1);  // reaped, not a zombie
  }
  EXPECT_EQ(n_open(), n_before);
  EXPECT_THROW(ChildProcess({.command = {"/no/such/program"}, .name = ""}), Error);
  EXPECT_EQ(n_open(), n_before);
}

TEST(ChildProcess, InheritsNoFilesAndNoSignals) {
  const int open = ::open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  sigset_t blocked;
  sigset_t before;
  ::sigfillset(&blocked);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const std::string files = end_of("exec ls -1 /proc/self/fd /none >&2");
  const std::string signals = end_of("exec grep -h SigBlk /none /proc/self/status >&2");
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::close(open);
  EXPECT_EQ(files, "exit status 2: 3");  // the highest descriptor is the folder that ls has open
  EXPECT_EQ(signals, "exit status 2: SigBlk:\t0000000000000000");
}

TEST(ChildProcess, KnowsHowItEndedWhenItCallsOnEnd) {
  std::promise<ChildProcess*> made;
  std::string how;
  ChildOptions options = shell("echo two >&2; exit 1");
  options.on_end = [&] { how = made.get_future().get()->how_it_ended(); };
  ChildProcess child(options);
  made.set_value(&child);
  child.end(seconds(20));
  EXPECT_EQ(how, child.how_it_ended());
}

TEST(ChildProcess, CallsOnEndBeforeEndReturns) {
  std::atomic<int> n = 0;
  ChildOptions options = shell("exec sleep 100");
  options.on_end = [&] { ++n; };
  ChildProcess child(options);
  EXPECT_EQ(n, 0);
  child.end(seconds(20));
  EXPECT_EQ(n, 1);
}

}  // namespace
}  // namespace billow::process
