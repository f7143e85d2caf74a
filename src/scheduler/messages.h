// What the planner is told and what it answers: plain data. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/crash_history.h"
#include "scheduler/estimate.h"
#include "scheduler/time.h"

namespace billow::scheduler {

struct Options {
  uint64_t budget_bytes = 0;  // for all models together
  size_t n_parallel = 1;      // requests that run on one model at once
  // The same for an embedding model, whose runner packs requests into passes: their memory is that
  // of one pass, whatever their number.
  size_t n_parallel_embedding = 256;
  // Of each kind: an embedding model never takes the place of a chat model. 0: kAutoMaxLoaded.
  size_t n_max_loaded = 0;
  size_t n_max_queue = 512;  // waiting requests of all models, at least 1
  Duration keep_alive = std::chrono::minutes(5);
  Duration load_timeout = std::chrono::minutes(5);  // without progress; 0 or less: none
  RestartPolicy restarts{};
};
inline constexpr size_t kAutoMaxLoaded = 3;

using RequestId = uint64_t;

struct Request {
  RequestId id = 0;  // the caller's; no two at a time
  std::string key;   // of the runner that it needs: runner_key()
  std::string name;  // of the model, as shown
  bool is_embedding = false;
  ModelCost cost;  // of this request: from the header
  std::optional<Duration> keep_alive;
  std::string label{};  // of the model, for listings: kept as it is while the model is loaded
  // Of what it asks: the same for a request that is sent again. 0: not known.
  uint64_t digest = 0;
};

// What a runner's ledger holds.
struct MemoryReport {
  uint64_t version = 0;       // of the budget it goes by: that of the action that set it
  uint64_t held_bytes = 0;    // in all
  uint64_t cached_bytes = 0;  // of them: kept for prompts that begin alike, can be dropped
  uint64_t wanted_bytes = 0;  // above its budget: what a running request could grow into
  // A request stands still until it knows whether it can have that: kSetBudget follows.
  bool is_asking = false;
};

// What a runner may use, and what it could be given on top.
struct Budget {
  uint64_t bytes = 0;
  uint64_t version = 0;
  // No budget above this can be had now: what needs more does without. kNoCeiling: not known.
  uint64_t ceiling = kNoCeiling;
  static constexpr uint64_t kNoCeiling = std::numeric_limits<uint64_t>::max();
  bool operator==(const Budget&) const = default;
};

struct LoadFailure {
  bool out_of_memory = false;
  std::string text;  // one line, for those who wait
};

// How a runner's process has ended of itself.
struct ProcessEnd {
  std::string detail{};    // one line, or nothing
  bool by_signal = false;  // it was killed or crashed, and may do better another time
};

enum class ActionKind : uint8_t {
  kStartLoad,  // key, bytes, version: a runner with this budget
  kAssign,     // request, key: run it there
  kRefuse,     // request, status, text: an answer, before it was assigned
  kFail,       // request, status, text: an answer, after it was assigned or its load failed
  kRetry,      // request: its runner is gone; it waits again, and is assigned or failed later. It
               // runs alone then
  kSetBudget,  // key, bytes, version, ceiling: more to use, or less: drop idle memory down to it.
               // Report then, after what was wanted has been taken
  kUnload,     // key: end the runner, and say when it is gone
};

struct Action {
  ActionKind kind = ActionKind::kAssign;
  std::string key{};
  RequestId request = 0;
  uint64_t bytes = 0;
  uint64_t version = 0;
  uint64_t ceiling = Budget::kNoCeiling;
  int status = 0;  // of HTTP
  std::string text{};
  bool operator==(const Action&) const = default;
};
using Actions = std::vector<Action>;

enum class Phase : uint8_t {
  kAbsent,
  kLoading,
  kReady,
  kUnloading,
};

struct ModelSnapshot {
  std::string name;  // of the request that had it loaded
  std::string key;
  bool is_embedding = false;
  Phase phase = Phase::kAbsent;
  bool is_stopping = false;    // it ends when what runs has finished
  uint64_t held_bytes = 0;     // as last reported; 0 while it loads
  uint64_t granted_bytes = 0;  // at most
  Time expires_at = kNever;    // while busy or loading: as if it became idle now
  size_t n_running = 0;        // references
  size_t n_waiting = 0;
  std::string label{};  // as `name`
};

struct Snapshot {
  std::vector<ModelSnapshot> models;  // those with a runner, latest to expire first, then by key
  uint64_t budget_bytes = 0;
  uint64_t granted_bytes = 0;
  size_t n_waiting = 0;                 // requests of all models, loaded or not
  std::vector<std::string> crashing{};  // names of models whose runners died too often
};

// Statuses of HTTP and texts that clients know.
inline constexpr int kServerError = 500;
inline constexpr int kUnavailable = 503;
inline constexpr std::string_view kBusyText =
    "server busy, please try again.  maximum pending requests exceeded";
inline constexpr std::string_view kShutdownText = "server is shutting down";
inline constexpr std::string_view kCrashText =
    "model runner has unexpectedly stopped, this may be due to resource limitations or an internal "
    "error, check ollama server logs for details";
// Behind kCrashText: of a request that ran at kMaxDeaths deaths, the last time alone.
inline constexpr std::string_view kCulpritText =
    "the runner has ended twice while this request ran, the last time alone; it is not tried "
    "again";
inline constexpr std::string_view kRefusedText =
    "this request is refused for a minute: the model's runner has ended twice while it ran";

// "model requires more system memory (5.6 GiB) than is available (4.0 GiB)"
std::string memory_refusal(uint64_t needed_bytes, uint64_t available_bytes);

// What tells one runner from another: weights, and what changes them. The order of adapters counts;
// `options` are those that change weights. No two different sets have the same key, and keys sort
// by path.
struct RunnerParts {
  std::string path;  // of the weights' blob
  std::vector<std::string> adapters{};
  std::vector<std::string> projectors{};
  std::vector<std::string> drafts{};
  std::vector<std::string> options{};
};
std::string runner_key(const RunnerParts& parts);

}  // namespace billow::scheduler
