// The functions of the portable program that glibc 2.28 lacks. They run without this machine's.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <set>
#include <string>
#include <thread>

#include "../../packaging/portable/old_glibc.cpp"

namespace {

using FindObject = int (*)(void*, dl_find_object*);

FindObject glibc_find_object() {
  void* const libc = ::dlopen("libc.so.6", RTLD_NOW);
  return reinterpret_cast<FindObject>(::dlsym(libc, "_dl_find_object"));
}

TEST(OldGlibc, FindsTheUnwindTableThatGlibcFinds) {
  const FindObject of_glibc = glibc_find_object();
  ASSERT_NE(of_glibc, nullptr);
  void* const addresses[] = {reinterpret_cast<void*>(&glibc_find_object),
                             reinterpret_cast<void*>(&::getppid),
                             ::dlsym(RTLD_DEFAULT, "__cxa_throw")};
  for (void* address : addresses) {
    dl_find_object expected{};
    dl_find_object found{};
    ASSERT_EQ(of_glibc(address, &expected), 0);
    ASSERT_EQ(::_dl_find_object(address, &found), 0);
    EXPECT_EQ(found.dlfo_eh_frame, expected.dlfo_eh_frame);
    EXPECT_LE(found.dlfo_map_start, address);
    EXPECT_GT(found.dlfo_map_end, address);
  }
}

TEST(OldGlibc, FindsNoUnwindTableOutsideOfObjects) {
  int variable = 0;
  dl_find_object found{};
  EXPECT_EQ(::_dl_find_object(&variable, &found), -1);
}

TEST(OldGlibc, RandomNumbersDiffer) {
  std::set<uint32_t> numbers;
  for (int i = 0; i < 16; ++i) numbers.insert(::arc4random());
  EXPECT_GT(numbers.size(), 8U);
}

TEST(OldGlibc, ThreadsHaveIds) {
  EXPECT_EQ(::gettid(), ::getpid());
  pid_t other = 0;
  std::thread([&] { other = ::gettid(); }).join();
  EXPECT_NE(other, ::getpid());
}

TEST(OldGlibc, WaitsForConditionUntilTimeOfSteadyClock) {
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  timespec deadline = now(CLOCK_MONOTONIC);
  const auto begin = std::chrono::steady_clock::now();
  deadline.tv_nsec += 50'000'000;
  if (deadline.tv_nsec >= kNanosPerSecond) {
    deadline.tv_nsec -= kNanosPerSecond;
    ++deadline.tv_sec;
  }
  ::pthread_mutex_lock(&mutex);
  EXPECT_EQ(::pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &deadline), ETIMEDOUT);
  ::pthread_mutex_unlock(&mutex);
  const auto waited = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(waited, std::chrono::milliseconds(45));
  EXPECT_LT(waited, std::chrono::seconds(10));
}

TEST(OldGlibc, ConvertsDeadlinesWithCarry) {
  for (const long nanos : {0L, 1L, 499'999'999L, kNanosPerSecond - 1}) {
    timespec deadline = now(CLOCK_MONOTONIC);
    deadline.tv_nsec = nanos;
    deadline.tv_sec += 2;
    const timespec converted = to_realtime(CLOCK_MONOTONIC, deadline);
    EXPECT_GE(converted.tv_nsec, 0);
    EXPECT_LT(converted.tv_nsec, kNanosPerSecond);
    EXPECT_GT(converted.tv_sec, now(CLOCK_REALTIME).tv_sec);
  }
}

TEST(OldGlibc, NamesSignals) {
  EXPECT_STREQ(::sigdescr_np(SIGKILL), "Killed");
  EXPECT_EQ(::sigdescr_np(0), nullptr);
  EXPECT_EQ(::sigdescr_np(NSIG), nullptr);
}

// Starts `sh -c script` with the actions and returns its exit status.
int status_of(const std::string& script, const posix_spawn_file_actions_t& actions) {
  std::string words[] = {"sh", "-c", script};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  pid_t child = 0;
  if (::posix_spawn(&child, "/bin/sh", &actions, nullptr, arguments, ::environ) != 0) return -1;
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(OldGlibc, ChildHasNoFileAfterTheFirstClosedOne) {
  const int file = ::open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  ASSERT_GT(file, STDERR_FILENO);
  const std::string script = "[ ! -e /proc/self/fd/" + std::to_string(file) + " ]";
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  EXPECT_EQ(status_of(script, actions), 1);
  ASSERT_EQ(::posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1), 0);
  EXPECT_EQ(status_of(script, actions), 0);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(file);
}

}  // namespace
