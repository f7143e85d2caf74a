// One runner from its start to its end, on a thread of its own, so that one that hangs holds up no
// other: starts it, asks how it is, tells it its budget, ends it, and says what came of it. Owns
// the thread, and shares the runner with those who send requests to it. Any thread may call.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "scheduler/messages.h"
#include "scheduler/runner.h"

namespace billow::scheduler {

class RunnerWatch;

// What happens to a runner, told from its thread without a lock held.
class RunnerEvents {
 public:
  virtual ~RunnerEvents() = default;
  virtual void load_progressed(const std::string& key, uint64_t n_loaded) = 0;
  virtual void load_finished(const std::string& key, uint64_t held_bytes) = 0;
  // Its process may live; it is still to be ended.
  virtual void load_failed(const std::string& key, const LoadFailure& failure) = 0;
  virtual void memory_changed(const std::string& key, const MemoryReport& report) = 0;
  // look() was called, and the runner is as it should be.
  virtual void found_well(const RunnerWatch& watch) = 0;
  // Its process has ended: the last that is said of it. `detail`: one line, or nothing.
  virtual void runner_gone(RunnerWatch& watch, const std::string& detail) = 0;
};

// How often a runner is asked how it is.
struct WatchTimes {
  std::chrono::milliseconds first{5};  // while it loads, for its first `soon`
  std::chrono::milliseconds soon{300};
  std::chrono::milliseconds loading{25};  // then
  std::chrono::milliseconds ready{500};
  std::chrono::milliseconds min{10};               // between two times, whatever happens
  std::chrono::milliseconds changed{100};          // where requests have come or gone
  std::chrono::milliseconds max_until_sent{2000};  // it may take to go by a new budget
  size_t n_failures = 2;  // without an answer, one behind the other: it is ended
};

class RunnerWatch {
 public:
  // `version` is that of the launch's budget. `events` outlives the watch. Throws std::system_error
  // where there is no thread to be had.
  RunnerWatch(const Launch& launch, uint64_t version, StartRunner start, RunnerEvents& events,
              const WatchTimes& times = {});
  ~RunnerWatch();  // end(), and waits for it. Not on its own thread.
  RunnerWatch(const RunnerWatch&) = delete;
  RunnerWatch& operator=(const RunnerWatch&) = delete;

  const std::string& key() const noexcept { return launch_.key; }

  // Any thread, but not with the strand's lock: has the runner know the budget that was set last,
  // before it is sent work that needs it.
  void send_budget();

  // These return at once.
  void set_budget(const Budget& budget);
  void end();
  // A request stands still for want of memory: ask it soon.
  void ask_soon();
  // A request has ended: ask it before long, but not after each of many.
  void refresh();
  // It may be gone: ask it soon, and say so where it is not. Tells which such question it is.
  uint64_t look();
  // The last question that found_well() answers.
  uint64_t n_looked() const;

  std::shared_ptr<Runner> runner() const;  // null until it has been started
  RunnerHealth health() const;             // of a moment ago
  pid_t pid() const;                       // 0 until it has been started

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  bool start();
  // False: it is to be ended, or has ended.
  bool wait();
  bool ask();
  void report(const RunnerHealth& health);
  std::chrono::milliseconds pause() const;  // `mutex_` is held for these
  std::chrono::milliseconds shortest_pause() const;
  bool must_end() const;
  void finish();

  const Launch launch_;
  const uint64_t first_version_;
  const StartRunner start_;
  const WatchTimes times_;
  RunnerEvents& events_;

  // Of the thread.
  const Clock::time_point started_ = Clock::now();
  Clock::time_point asked_ = Clock::now();
  std::atomic<bool> is_ready_{false};  // others read it
  bool has_failed_ = false;            // to load; it is not asked any more
  size_t n_failures_ = 0;
  std::string detail_;  // why it is ended, where its process does not tell

  std::mutex sending_;  // one budget after the other
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool must_end_ = false;
  bool must_ask_ = false;
  bool has_changed_ = false;
  bool has_ended_ = false;  // the process
  uint64_t n_look_ = 0;
  uint64_t n_looked_ = 0;
  std::optional<Budget> budget_;  // not told yet
  std::optional<uint64_t> sent_;  // the version of one that it does not go by yet
  Clock::time_point sent_at_{};
  std::shared_ptr<Runner> runner_;
  RunnerHealth health_;
  std::thread thread_;  // the last, as it uses the others
};

}  // namespace billow::scheduler
