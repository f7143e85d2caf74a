#include "http/handler_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "http/raw_client.h"

namespace billow::http {
namespace {

using std::chrono::milliseconds;

// A queue of steps for the turns of a pool. Thread-safe.
class Steps {
 public:
  void add(std::function<void()> step) {
    {
      const std::lock_guard lock(mutex_);
      steps_.push_back(std::move(step));
    }
    changed_.notify_one();
  }
  void end() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_one();
  }
  // Waits for a step and runs it. Returns false after the last step.
  bool take() {
    EXPECT_EQ(++n_inside_, 1) << "two threads take turns at the same time";
    std::function<void()> step;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !steps_.empty() || ended_; });
      if (!steps_.empty()) {
        step = std::move(steps_.front());
        steps_.pop_front();
      }
    }
    if (step) step();
    --n_inside_;
    return step != nullptr;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> steps_;
  bool ended_ = false;
  std::atomic<int> n_inside_{0};
};

TEST(HandlerPool, GrowsWhileAllAreBusy) {
  HandlerPool pool(milliseconds(60'000));
  std::atomic<int> n_inside{0};
  std::atomic<bool> may_end{false};
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(pool.run([&] {
      ++n_inside;
      eventually([&] { return may_end.load(); });
    }));
  }
  EXPECT_TRUE(eventually([&] { return n_inside == 20; }));
  EXPECT_EQ(pool.n_threads(), 20u);
  may_end = true;
  pool.join();
  EXPECT_EQ(pool.n_threads(), 0u);
}

TEST(HandlerPool, ReusesThreadsAndEndsIdleOnes) {
  HandlerPool pool(milliseconds(50));
  std::atomic<int> n_done{0};
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(pool.run([&] { ++n_done; }));
    EXPECT_TRUE(eventually([&] { return n_done == i + 1; }));
  }
  // A thread is new if the system has not yet run the latest one to its end.
  EXPECT_LE(pool.n_threads(), 100u);
  EXPECT_TRUE(eventually([&] { return pool.n_threads() == 0; }));
  EXPECT_TRUE(pool.run([&] { ++n_done; }));
  EXPECT_TRUE(eventually([&] { return n_done == 201; }));
}

TEST(HandlerPool, JoinFinishesAllWorkAndAcceptsNoMore) {
  HandlerPool pool(milliseconds(50));
  std::atomic<int> n_done{0};
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(pool.run([&] { ++n_done; }));
  }
  pool.join();
  EXPECT_EQ(n_done, 50);
  EXPECT_FALSE(pool.run([] {}));
}

TEST(HandlerPoolWithTurns, RunsWorkOnTheThreadThatTookTheTurn) {
  Steps steps;
  HandlerPool pool(milliseconds(60'000), [&] { return steps.take(); });
  ASSERT_TRUE(pool.start());
  for (int i = 0; i < 100; ++i) {
    std::atomic<bool> is_done{false};
    steps.add([&] {
      EXPECT_TRUE(pool.run([&, reader = std::this_thread::get_id()] {
        EXPECT_EQ(std::this_thread::get_id(), reader);
        is_done = true;
      }));
    });
    EXPECT_TRUE(eventually([&] { return is_done.load(); }));
  }
  // A thread is new if the system has not yet run the latest one to its end.
  EXPECT_LT(pool.n_threads(), 50u);
  steps.end();
}

TEST(HandlerPoolWithTurns, TakesTurnsWhileThreadsWork) {
  Steps steps;
  HandlerPool pool(milliseconds(20), [&] { return steps.take(); });
  ASSERT_TRUE(pool.start());
  std::atomic<int> n_inside{0};
  std::atomic<bool> may_end{false};
  const auto work = [&] {
    ++n_inside;
    eventually([&] { return may_end.load(); });
    --n_inside;
  };
  for (int i = 1; i <= 20; i += 2) {
    // One turn submits two pieces of work. They run in parallel.
    steps.add([&] {
      EXPECT_TRUE(pool.run(work));
      EXPECT_TRUE(pool.run(work));
    });
    EXPECT_TRUE(eventually([&] { return n_inside == i + 1; }));
  }
  std::atomic<bool> is_taken{false};
  steps.add([&] { is_taken = true; });
  EXPECT_TRUE(eventually([&] { return is_taken.load(); }));
  may_end = true;
  EXPECT_TRUE(eventually([&] { return pool.n_threads() == 1; }));  // the other threads were idle
  is_taken = false;
  steps.add([&] { is_taken = true; });
  EXPECT_TRUE(eventually([&] { return is_taken.load(); }));
  steps.end();
}

TEST(HandlerPoolWithTurns, TurnsContinueUntilAllWorkIsDone) {
  for (int round = 0; round < 50; ++round) {
    Steps steps;
    HandlerPool pool(milliseconds(1), [&] { return steps.take(); });
    ASSERT_TRUE(pool.start());
    std::atomic<int> n_done{0};
    std::atomic<bool> may_end{false};
    for (int i = 0; i < 5; ++i) {
      steps.add([&] {
        // The work ends only if turns continue while the pool finishes.
        if (pool.run([&] {
              eventually([&] { return may_end.load(); });
              ++n_done;
            })) {
          return;
        }
        ++n_done;
      });
    }
    std::thread ends([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(round * 20));
      steps.add([&] { may_end = true; });
    });
    std::this_thread::sleep_for(std::chrono::microseconds(round * 10));
    pool.finish_work();
    EXPECT_FALSE(pool.run([] {}));
    ends.join();
    steps.end();
    pool.join();
    EXPECT_EQ(n_done, 5);
    EXPECT_EQ(pool.n_threads(), 0u);
  }
}

// The only other thread is idle for too long while a turn runs that has submitted work. It must
// stay, because the thread of that turn does the work.
TEST(HandlerPoolWithTurns, KeepsAThreadForTheTurnAfterOneWithWork) {
  Steps steps;
  std::atomic<bool> is_taken{false};
  HandlerPool pool(milliseconds(1), [&] { return steps.take(); });
  steps.add([&] {
    EXPECT_TRUE(pool.run(
        [&] { EXPECT_TRUE(eventually([&] { return is_taken.load(); }, milliseconds(60'000))); }));
    // Gives the other thread the time to end.
    eventually([&] { return pool.n_threads() == 1; }, milliseconds(50));
  });
  steps.add([&] { is_taken = true; });
  ASSERT_TRUE(pool.start());
  EXPECT_TRUE(eventually([&] { return is_taken.load(); }));
  steps.end();
}

TEST(HandlerPoolWithTurns, CanBeDestroyedWithoutStart) {
  const HandlerPool pool(milliseconds(50), [] { return true; });
  EXPECT_EQ(pool.n_threads(), 0u);
}

}  // namespace
}  // namespace billow::http
