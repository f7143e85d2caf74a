// Watches one runner from its start to its end. It has its own thread, so that a runner that hangs
// blocks no other. Starts the runner, requests its health, sends its budget, ends it and reports
// events. Owns the thread, and shares the runner with its clients. Thread-safe.
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

// Events of a runner. Called on the watch's thread, without a lock.
class RunnerEvents {
 public:
  virtual ~RunnerEvents() = default;
  virtual void load_progressed(const std::string& key, uint64_t n_loaded) = 0;
  virtual void load_finished(const std::string& key, uint64_t held_bytes) = 0;
  // The process may still live and must be ended.
  virtual void load_failed(const std::string& key, const LoadFailure& failure) = 0;
  virtual void memory_changed(const std::string& key, const MemoryReport& report) = 0;
  // The runner is healthy. Called after look().
  virtual void found_well(const RunnerWatch& watch) = 0;
  // The process has ended. The last event of a runner. `detail` is one line, or empty.
  virtual void runner_gone(RunnerWatch& watch, const std::string& detail) = 0;
};

// Intervals of health requests.
struct WatchTimes {
  std::chrono::milliseconds first{5};  // while it loads, during `soon` after its start
  std::chrono::milliseconds soon{300};
  std::chrono::milliseconds loading{25};  // later during the load
  std::chrono::milliseconds ready{500};
  std::chrono::milliseconds min{10};               // min interval, after any event
  std::chrono::milliseconds changed{100};          // after requests have started or ended
  std::chrono::milliseconds max_until_sent{2000};  // max time until the runner uses a new budget
  // Consecutive failures, at least `ready` apart, until the runner is ended.
  size_t n_failures = 2;
  // After these failures, how long the process may take to report its end. Its end says more.
  std::chrono::milliseconds until_end{2000};
};

class RunnerWatch {
 public:
  // `version` is the version of the launch's budget. `events` must outlive the watch. Throws
  // std::system_error if no thread can be created.
  RunnerWatch(const Launch& launch, uint64_t version, StartRunner start, RunnerEvents& events,
              const WatchTimes& times = {});
  ~RunnerWatch();  // calls end() and waits; not on its own thread
  RunnerWatch(const RunnerWatch&) = delete;
  RunnerWatch& operator=(const RunnerWatch&) = delete;

  const std::string& key() const noexcept { return launch_.key; }
  const std::string& name() const noexcept { return launch_.name; }

  // Sends the latest budget to the runner, before it gets work that needs it. Any thread, but
  // without the strand's lock.
  void send_budget();

  // These functions return immediately.
  void set_budget(const Budget& budget);
  void end();
  // A request is paused for lack of memory: requests the health soon.
  void ask_soon();
  // A request has ended: requests the health after a delay, once for many requests.
  void refresh();
  // The runner may have died: requests its health soon, and calls found_well() if it is healthy.
  // Returns the number of this check.
  uint64_t look();
  // Returns the number of the latest check that has been made.
  uint64_t n_looked() const;

  std::shared_ptr<Runner> runner() const;  // null until the start
  RunnerHealth health() const;             // the latest health; may be out of date
  pid_t pid() const;                       // 0 until the start

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  bool start();
  // Waits for the next health request. Returns false if the runner must end or has ended.
  bool wait();
  bool ask();
  void report(const RunnerHealth& health);
  std::chrono::milliseconds pause()
      const;  // REQUIRES for pause() and shortest_pause(): `mutex_` is held
  std::chrono::milliseconds shortest_pause() const;
  bool must_end() const;
  // Waits until the process has ended, the runner must end, or `until_end` is over.
  void wait_for_end();
  void finish();

  const Launch launch_;
  const uint64_t first_version_;
  const StartRunner start_;
  const WatchTimes times_;
  RunnerEvents& events_;

  // Used by the thread only.
  const Clock::time_point started_ = Clock::now();
  Clock::time_point asked_ = Clock::now();
  std::atomic<bool> is_ready_{false};  // also read by other threads
  bool has_failed_ = false;            // the load failed; no more health requests
  size_t n_failures_ = 0;              // consecutive ones, at least `ready` apart
  Clock::time_point failed_at_{};      // of the last one
  std::string detail_;                 // why the runner is ended, if its process does not say

  std::mutex sending_;  // serialises budgets
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool must_end_ = false;
  bool must_ask_ = false;
  bool has_changed_ = false;
  bool has_ended_ = false;  // the process has ended
  uint64_t n_look_ = 0;
  uint64_t n_looked_ = 0;
  std::optional<Budget> budget_;  // not sent yet
  std::optional<uint64_t> sent_;  // version of a budget that was sent and is not in effect yet
  Clock::time_point sent_at_{};
  std::shared_ptr<Runner> runner_;
  RunnerHealth health_;
  std::thread thread_;  // declared last, because it uses the other members
};

}  // namespace billow::scheduler
