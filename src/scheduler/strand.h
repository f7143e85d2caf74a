// The planner's world: carries out its actions in order, tells it what happened, one thing at a
// time. Nothing here waits for a runner while it holds the lock. Shared by the scheduler and its
// leases. Any thread may call.
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
  Strand(const Options& options, StartRunner start);
  ~Strand() override;  // close()

  // A job from its arrival to its end. Whoever waits for it has it; the strand's lock guards it.
  struct Ticket {
    RequestId id = 0;
    Job job;
    std::deque<JobStage> stages{JobStage::kQueued};  // come to, and not told of
    std::shared_ptr<RunnerWatch> watch{};            // where it runs
    bool has_streamed = false;                       // it cannot begin again
    bool has_finished = false;                       // a call of it
    int status = 0;  // of the answer in place of a runner; 0: none yet
    std::string text{};
    std::condition_variable_any changed{};
  };

  // Scheduler::acquire, and what comes of a Ticket.
  std::shared_ptr<Ticket> arrive(const Job& job, const std::stop_token& stop,
                                 const OnStage& on_stage);
  void leave(const Ticket& ticket);

  // The runner that a call goes to; null where there is none at the moment: recover().
  std::shared_ptr<RunnerWatch> watch_of(const Ticket& ticket) const;
  std::shared_ptr<RunnerWatch> watch_of(const std::string& key) const;
  // Before text of this runner goes out: false where the request has left it and begins again.
  bool may_stream(Ticket& ticket, const RunnerWatch& watch);
  // What was streamed has come to its end: the next call of the job may begin again.
  void end_call(Ticket& ticket);
  // The call of a running job has failed for want of a sound runner. Returns when it has another
  // one; throws as acquire does, or where the runner was found to be well.
  void recover(Ticket& ticket, const std::shared_ptr<RunnerWatch>& watch, const std::string& what,
               const std::stop_token& stop, const OnStage& on_stage);

  void set_keep_alive(const std::string& key, Duration keep_alive);
  void stop(const std::string& key);
  bool drain(std::chrono::milliseconds timeout);
  SchedulerState state();
  // Ends all runners and threads. No job is taken any more. Once.
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
  // `mutex_` is held by all of these.
  void apply(Actions actions);
  void carry_out(const Action& action);
  void start_load(const Action& action);
  Ticket* find(RequestId id);
  // Tells of all stages on the way, in their order.
  void wait_for_runner(Lock& lock, Ticket& ticket, const std::stop_token& stop,
                       const OnStage& on_stage);
  void run();

  const Options options_;
  const StartRunner start_;
  mutable std::mutex mutex_;
  Planner planner_;
  std::deque<Action> todo_;  // what apply() is at
  bool is_applying_ = false;
  std::map<std::string, std::shared_ptr<RunnerWatch>> watches_;
  std::vector<std::shared_ptr<RunnerWatch>> ended_;  // whose threads are to be joined
  std::unordered_map<RequestId, std::shared_ptr<Ticket>> tickets_;
  std::string loading_;  // the key of the one that loads, if any
  RequestId next_id_ = 1;
  std::optional<Time> sleeps_until_;  // the thread
  bool is_draining_ = false;
  bool is_closed_ = false;           // nothing runs any more, and the thread ends
  std::condition_variable wakes_;    // the thread: a new time, or something to join
  std::condition_variable drained_;  // a runner has ended
  std::thread thread_;
};

}  // namespace billow::scheduler
