#include "api/lookups.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "http/status.h"

namespace billow::api {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kEnough = std::chrono::minutes(5);

int get(Lookups& lookups, const std::string& key, const std::function<int(std::stop_token)>& work,
        const Lookups::Wait& wait = {.timeout = kEnough}) {
  return *lookups.get<int>(key, wait, work);
}

// Returns the status of the error; 0 if there is a result.
int refusal(Lookups& lookups, const std::string& key, const Lookups::Wait& wait) {
  try {
    get(lookups, key, [](std::stop_token) { return 1; }, wait);
    return 0;
  } catch (const http::StatusError& error) {
    return error.status();
  }
}

// Work that hangs until release(), like a file system that does not answer.
class Hanging {
 public:
  ~Hanging() { release(); }
  void release() {
    if (!released_.exchange(true)) go_.set_value();
  }
  void wait_until_begun() { begun_.get_future().wait(); }
  int operator()() {
    EXPECT_EQ(n_running_.fetch_add(1), 0) << "one at a time";
    if (n_begun_.fetch_add(1) == 0) begun_.set_value();
    may_go_.wait();
    --n_running_;
    return 42;
  }

 private:
  std::atomic<int> n_begun_{0};  // more than 1: a caller started new work after the first result
  std::atomic<int> n_running_{0};
  std::promise<void> begun_;
  std::promise<void> go_;
  std::shared_future<void> may_go_{go_.get_future()};
  std::atomic<bool> released_{false};
};

TEST(Lookups, CallersWithOneKeyShareOneResult) {
  Hanging hanging;
  Lookups lookups;
  const auto work = [&](std::stop_token) { return hanging(); };
  std::vector<std::future<int>> answers;
  for (int i = 0; i < 8; ++i)
    answers.push_back(std::async(std::launch::async, [&] { return get(lookups, "a", work); }));
  hanging.wait_until_begun();
  hanging.release();
  for (std::future<int>& answer : answers) EXPECT_EQ(answer.get(), 42);
  EXPECT_EQ(get(lookups, "a", [](std::stop_token) { return 7; }), 7) << "results are not cached";
}

TEST(Lookups, StuckWorkDelaysNoOtherKey) {
  Hanging hanging;
  Lookups lookups;
  const auto work = [&](std::stop_token) { return hanging(); };
  EXPECT_THROW(get(lookups, "a", work, {.timeout = milliseconds(0)}), http::StatusError);
  hanging.wait_until_begun();
  EXPECT_EQ(refusal(lookups, "a", {.timeout = milliseconds(1)}), 503);
  EXPECT_EQ(get(lookups, "b", [](std::stop_token) { return 7; }), 7);
  EXPECT_EQ(lookups.n_running(), 1u);
  auto patient = std::async(std::launch::async, [&] { return get(lookups, "a", work); });
  hanging.release();
  EXPECT_EQ(patient.get(), 42);
}

TEST(Lookups, ErrorsReachTheCallerAndAreNotCached) {
  Lookups lookups;
  const auto broken = [](std::stop_token) -> int { throw Error(ErrorCode::kIo, "broken"); };
  EXPECT_THROW(get(lookups, "a", broken), Error);
  EXPECT_EQ(get(lookups, "a", [](std::stop_token) { return 7; }), 7);
}

TEST(Lookups, WaitEndsWhenTheClientDisconnects) {
  Hanging hanging;
  Lookups lookups;
  std::stop_source gone;
  auto waiting = std::async(std::launch::async, [&] {
    try {
      get(lookups, "a", [&](std::stop_token) { return hanging(); },
          {.timeout = kEnough, .stop = gone.get_token()});
      return 0;
    } catch (const http::StatusError& error) {
      return error.status();
    }
  });
  hanging.wait_until_begun();
  gone.request_stop();
  EXPECT_EQ(waiting.get(), 499);
  hanging.release();
}

TEST(Lookups, CancelEndsWaitsAndStopsTheWork) {
  Hanging hanging;
  std::promise<void> stopped;
  Lookups lookups;
  auto waiting = std::async(std::launch::async, [&] {
    try {
      get(lookups, "a", [&](std::stop_token stop) {
        const std::stop_callback on_stop(stop, [&] { stopped.set_value(); });
        return hanging();
      });
      return 0;
    } catch (const http::StatusError& error) {
      return error.status();
    }
  });
  hanging.wait_until_begun();
  lookups.cancel();
  EXPECT_EQ(waiting.get(), 503);
  stopped.get_future().wait();
  EXPECT_EQ(refusal(lookups, "b", {.timeout = kEnough}), 503) << "no new work starts";
  hanging.release();
}

TEST(Lookups, CancelledWaitsEndTheSameWhateverTheStoppedWorkThrows) {
  for (int round = 0; round < 50; ++round) {
    std::promise<void> begun;
    Lookups lookups;
    auto waiting = std::async(std::launch::async, [&] {
      try {
        return get(lookups, "a", [&](std::stop_token stop) -> int {
          begun.set_value();
          while (!stop.stop_requested()) std::this_thread::yield();
          throw Error(ErrorCode::kIo, "stopped");
        });
      } catch (const http::StatusError& error) {
        return error.status();
      } catch (const Error&) {
        return 500;
      }
    });
    begun.get_future().wait();
    lookups.cancel();
    EXPECT_EQ(waiting.get(), 503);
  }
}

TEST(Lookups, RefusesWorkImmediatelyIfTooMuchIsStuck) {
  Hanging first;
  Hanging second;
  Lookups lookups(2);
  EXPECT_THROW(get(lookups, "a", [&](std::stop_token) { return first(); }, {.timeout = {}}),
               http::StatusError);
  EXPECT_THROW(get(lookups, "b", [&](std::stop_token) { return second(); }, {.timeout = {}}),
               http::StatusError);
  EXPECT_EQ(refusal(lookups, "c", {.timeout = kEnough}), 503);
  first.release();
  EXPECT_EQ(get(lookups, "a", [](std::stop_token) { return 42; }), 42);
  EXPECT_EQ(refusal(lookups, "c", {.timeout = kEnough}), 0);
  second.release();
}

}  // namespace
}  // namespace billow::api
