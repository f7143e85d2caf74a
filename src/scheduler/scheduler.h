// Loads models and runs requests on them. One strand performs the Planner's actions: it starts,
// watches and ends runners, and assigns requests to them. Owns the runners. Thread-safe. Calls and
// leases may outlive the scheduler; they end with errors.
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
  std::string name;     // display name of the model
  std::string weights;  // path of the GGUF file
  bool is_embedding = false;
  ModelCost cost;                               // of this request
  EngineChoice engine{.engine = Engine::kOwn};  // part of the key
  std::optional<Duration> keep_alive;
  std::string label{};  // of the model, for listings: ModelSnapshot shows the label of the job that
                        // caused the load
  uint64_t digest = 0;  // of the request's content, see Request::digest
  std::string tenant{};  // see Request::tenant
  uint64_t work = 1;     // see Request::work
  uint32_t weight = 1;   // see Request::weight
  bool is_bulk = false;  // see Request::is_bulk
};

// The stages of a request before it runs: for traces and durations. kQueued is always first.
// kLoading: the request waits for a load. kRetrying: its runner ended; then the other stages follow
// again. kWaiting: no news for a second; not a stage of its own.
enum class JobStage : uint8_t { kQueued, kLoading, kAssigned, kRetrying, kWaiting };
using OnStage = std::function<void(JobStage stage)>;

// A request's place on a loaded runner. The destructor frees the place. One thread.
class Lease {
 public:
  virtual ~Lease() = default;

  // These functions behave like Runner's. If the runner ends before a client saw any text, the
  // request is retried once, alone, on another runner. Prefill and events may then repeat.
  // Otherwise, they throw http::StatusError (500, kCrashText and more). If a call fails while the
  // runner is healthy, they throw 500 with "an error was encountered while running the model: ...".
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
  std::vector<LoadedModel> models;  // last expiry first
  uint64_t budget_bytes = 0;
  uint64_t granted_bytes = 0;
  size_t n_waiting = 0;
  bool is_draining = false;
  std::vector<std::string> crashing{};  // names of models whose runners keep crashing
};

// What happens to a model. Each load that begins ends with kUnloaded, maybe after kFailed.
struct ModelNews {
  enum class Kind : uint8_t { kLoading, kReady, kFailed, kUnloading, kUnloaded };
  Kind kind = Kind::kLoading;
  std::string name{};
  bool makes_room = false;  // kUnloading: its memory or its place is needed for another model
  uint64_t bytes = 0;       // kUnloading: memory that it held
  std::string detail{};     // kFailed: the error; kUnloaded: how the process ended
};
// Called with the scheduler's lock held, so it must be short and must not call the scheduler.
using OnNews = std::function<void(const ModelNews& news)>;

class Strand;

class Scheduler {
 public:
  Scheduler(const Options& options, StartRunner start, OnNews on_news = {});
  ~Scheduler();  // ends all runners and running requests
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Waits until the job may run; loads its model if needed. Throws http::StatusError: 503 if the
  // queue is full or the server drains, 500 if the model cannot be loaded. Throws Cancelled on
  // `stop`. A load continues if its job is cancelled. Calls `on_stage` on this thread.
  std::unique_ptr<Lease> acquire(const Job& job, std::stop_token stop,
                                 const OnStage& on_stage = {});

  // Sets the keep-alive of a loaded model. No effect if the model is not loaded.
  void set_keep_alive(const std::string& key, Duration keep_alive);
  // Returns Runner::prefixes of a loaded model. Empty if the model is not loaded or its runner does
  // not respond.
  std::vector<Prefix> prefixes(const std::string& key, std::string_view root, size_t n_max) const;
  // Calls Runner::do_with_text of a loaded model. Nullopt if the model is not loaded or its runner
  // does not respond. Throws http::StatusError if the runner rejects the call.
  std::optional<TextKv> do_with_text(const std::string& key, TextAction action,
                                     const CachedText& text) const;
  // Ends the runner after all earlier requests have finished.
  void stop(const std::string& key);

  // Accepts no more jobs and waits until all running jobs have finished and every runner has ended.
  // Returns false after `timeout`.
  bool drain(std::chrono::milliseconds timeout);

  SchedulerState state() const;  // may be slightly out of date; calls no runner

 private:
  const std::shared_ptr<Strand> strand_;
};

}  // namespace billow::scheduler
