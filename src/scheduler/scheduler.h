// Which models are loaded, carried out: one strand asks the Planner what to do, starts runners,
// watches and ends them, and hands requests to them. Owns the runners. Any thread may call. Calls
// and leases may outlast the scheduler: they end with errors.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "scheduler/engine_choice.h"
#include "scheduler/messages.h"
#include "scheduler/runner.h"

namespace billow::scheduler {

struct Job {
  std::string key;      // runner_key()
  std::string name;     // of the model, as shown
  std::string weights;  // path of the GGUF file
  bool is_embedding = false;
  ModelCost cost;                               // of this request
  EngineChoice engine{.engine = Engine::kOwn};  // part of the key
  std::optional<Duration> keep_alive;
  std::string label{};  // of the model, for listings: ModelSnapshot shows that of the job that had
                        // it loaded
  uint64_t digest = 0;  // of what it asks, as Request::digest
};

// How a request came to its runner: for traces and durations. kQueued first, always; kLoading where
// it waits for a load; kRetrying where its runner ended, and then the others again. kWaiting is no
// stage of its own: nothing has changed for a second.
enum class JobStage : uint8_t { kQueued, kLoading, kAssigned, kRetrying, kWaiting };
using OnStage = std::function<void(JobStage stage)>;

// A request's place on a loaded runner, given back when it is destroyed. One thread.
class Lease {
 public:
  virtual ~Lease() = default;

  // As Runner's. Where the runner ends before it has written any text, or any that was seen, the
  // request waits for another and begins again, alone; else, or the second time, throws
  // http::StatusError (500, kCrashText and more). So it does for what goes wrong while the runner
  // is well: "an error was encountered while running the model: ...". What was passed on of prefill
  // and events may then come again.
  virtual CompletionEnd complete(const Completion& request, const OnPiece& on_piece) = 0;
  virtual EmbedOutputs embed(const EmbedJob& job) = 0;
};

struct LoadedModel {
  ModelSnapshot model;
  pid_t pid = 0;
  RunnerHealth health;
  std::optional<std::chrono::system_clock::time_point> expires_at;  // absent: never
};

struct SchedulerState {
  std::vector<LoadedModel> models;  // latest to expire first
  uint64_t budget_bytes = 0;
  uint64_t granted_bytes = 0;
  size_t n_waiting = 0;
  bool is_draining = false;
  std::vector<std::string> crashing{};  // names of models whose runners die again and again
};

class Strand;

class Scheduler {
 public:
  Scheduler(const Options& options, StartRunner start);
  ~Scheduler();  // ends all runners, and with them what runs
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Waits until the job may run, loading its model where that is needed. Throws http::StatusError:
  // 503 where the queue is full or the server drains, 500 where the model cannot be loaded; and
  // Cancelled. A load goes on if its job is cancelled. `on_stage` is called on this thread.
  std::unique_ptr<Lease> acquire(const Job& job, std::stop_token stop,
                                 const OnStage& on_stage = {});

  // Of a loaded model; nothing where it is not loaded.
  void set_keep_alive(const std::string& key, Duration keep_alive);
  // Runner::prefixes of a loaded model; none where it is not loaded or its runner does not answer.
  std::vector<Prefix> prefixes(const std::string& key, std::string_view root, size_t n_max) const;
  // Ends the runner once what came before has finished.
  void stop(const std::string& key);

  // No job is taken any more; waits until those that run have finished and every runner has ended,
  // at most so long. Returns whether that was reached.
  bool drain(std::chrono::milliseconds timeout);

  SchedulerState state() const;  // of a moment ago; asks no runner

 private:
  const std::shared_ptr<Strand> strand_;
};

}  // namespace billow::scheduler
