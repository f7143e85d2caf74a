// Performs the planner's actions in order and reports events to it, one at a time. Never waits for
// a runner while it holds the lock. Shared by the scheduler and its leases. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "scheduler/planner.h"
#include "scheduler/runner_watch.h"
#include "scheduler/scheduler.h"

namespace billow::scheduler {

class Strand final : private RunnerEvents {
 public:
  Strand(const Options& options, StartRunner start, OnNews on_news);
  ~Strand() override;  // calls close()

  // A job from its arrival to its end. The waiting caller owns it; the strand's lock guards it.
  struct Ticket {
    RequestId id = 0;
    Job job;
    std::deque<JobStage> stages{JobStage::kQueued};  // reached and not reported yet
    std::shared_ptr<RunnerWatch> watch{};            // the runner where it runs
    bool has_streamed = false;                       // it cannot be retried
    bool has_finished = false;                       // a call of it has finished
    uint64_t n_tokens = 0;                           // work of the latest call
    int status = 0;                                  // status of an error response; 0: none
    std::string text{};
    std::condition_variable_any changed{};
  };

  // Implements Scheduler::acquire and the calls of a lease.
  std::shared_ptr<Ticket> arrive(const Job& job, const std::stop_token& stop,
                                 const OnStage& on_stage);
  void leave(const Ticket& ticket);

  // Returns the runner for a call. Returns null if there is none now: call recover().
  std::shared_ptr<RunnerWatch> watch_of(const Ticket& ticket) const;
  std::shared_ptr<RunnerWatch> watch_of(const std::string& key) const;
  // Called before text of this runner is sent. Returns false if the request no longer belongs to
  // the runner and will be retried.
  bool may_stream(Ticket& ticket, const RunnerWatch& watch);
  // Sets the work of a call, which may have ended early.
  void set_work(Ticket& ticket, uint64_t n_tokens);
  // A call has finished. The next call of the job may be retried.
  void end_call(Ticket& ticket);
  // Called after a call of a running job failed because of its runner. Returns when the job has
  // another runner. Throws like acquire, or with an error if the runner is healthy.
  void recover(Ticket& ticket, const std::shared_ptr<RunnerWatch>& watch, const std::string& what,
               const std::stop_token& stop, const OnStage& on_stage);

  void set_keep_alive(const std::string& key, Duration keep_alive);
  void stop(const std::string& key);
  bool drain(std::chrono::milliseconds timeout);
  SchedulerState state();
  // Ends all runners and threads. Accepts no more jobs. Must be called once.
  void close();

 private:
  using Lock = std::unique_lock<std::mutex>;

  void load_progressed(const std::string& key, uint64_t n_loaded) override;
  void load_finished(const std::string& key, uint64_t held_bytes) override;
  void load_failed(const std::string& key, const LoadFailure& failure) override;
  void memory_changed(const std::string& key, const MemoryReport& report) override;
  void found_well(const RunnerWatch& watch) override;
  void runner_gone(RunnerWatch& watch, const std::string& detail) override;

  static Time now();
  // REQUIRES: `mutex_` is held, for all of these.
  void apply(Actions actions);
  void carry_out(const Action& action);
  void start_load(const Action& action);
  void tell(const std::string& key, ModelNews news) const;
  Ticket* find(RequestId id);
  // Waits for a runner and reports all stages in order.
  void wait_for_runner(Lock& lock, Ticket& ticket, const std::stop_token& stop,
                       const OnStage& on_stage);
  void run();

  const Options options_;
  const StartRunner start_;
  const OnNews on_news_;
  mutable std::mutex mutex_;
  Planner planner_;
  std::deque<Action> todo_;  // remaining actions of apply()
  bool is_applying_ = false;
  std::map<std::string, std::shared_ptr<RunnerWatch>> watches_;
  std::vector<std::shared_ptr<RunnerWatch>> ended_;  // ended watches whose threads must be joined
  std::unordered_map<RequestId, std::shared_ptr<Ticket>> tickets_;
  std::string loading_;  // key of the loading model; empty: none
  RequestId next_id_ = 1;
  std::optional<Time> sleeps_until_;  // when the thread wakes up
  bool is_draining_ = false;
  bool is_closed_ = false;           // nothing runs any more and the thread ends
  std::condition_variable wakes_;    // wakes the thread: a new time, or a watch to join
  std::condition_variable drained_;  // a runner has ended
  std::thread thread_;
};

}  // namespace billow::scheduler
