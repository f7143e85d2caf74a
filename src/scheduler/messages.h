// The events that the planner receives and the actions that it returns. Plain data. Any thread.
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
  size_t n_parallel = 1;      // max requests that run on one model at the same time
  // Max requests of an embedding model. Its runner packs requests into passes, so that only one
  // pass needs memory.
  size_t n_parallel_embedding = 256;
  // Max loaded models of each kind: an embedding model never takes the place of a chat model. 0:
  // kAutoMaxLoaded.
  size_t n_max_loaded = 0;
  size_t n_max_queue = 512;  // max waiting requests of all models, at least 1
  Duration keep_alive = std::chrono::minutes(5);
  Duration load_timeout = std::chrono::minutes(5);  // without progress; 0 or less: no timeout
  RestartPolicy restarts{};
};
inline constexpr size_t kAutoMaxLoaded = 3;

using RequestId = uint64_t;

struct Request {
  RequestId id = 0;  // chosen by the caller; unique
  std::string key;   // runner_key() of the required runner
  std::string name;  // display name of the model
  bool is_embedding = false;
  ModelCost cost;  // from the file's header
  std::optional<Duration> keep_alive;
  std::string label{};  // of the model, for listings: does not change while the model is loaded
  // Digest of the request's content: equal if a request is sent again. 0: unknown.
  uint64_t digest = 0;
  // Whose request it is. Tenants take turns by the work of their requests; an empty name is a
  // tenant, too. Without names, requests run in order of arrival.
  std::string tenant{};
  uint64_t work = 1;    // expected tokens: evaluated and generated
  uint32_t weight = 1;  // share of the tenant while others wait, too
  // Starts only while no other request waits, and leaves places for other requests.
  bool is_bulk = false;
};

// A runner's memory, from its ledger.
struct MemoryReport {
  uint64_t version = 0;       // of the budget in effect: the version of the action that set it
  uint64_t held_bytes = 0;    // total
  uint64_t cached_bytes = 0;  // part of held_bytes: cached prefixes that can be dropped
  uint64_t wanted_bytes = 0;  // above its budget: what running requests could use
  // A request is paused until the planner decides about wanted_bytes with kSetBudget.
  bool is_asking = false;
};

// The budget of a runner and the max budget that it could get.
struct Budget {
  uint64_t bytes = 0;
  uint64_t version = 0;
  // Max budget that is available now. A request that needs more must do without. kNoCeiling:
  // unknown.
  uint64_t ceiling = kNoCeiling;
  static constexpr uint64_t kNoCeiling = std::numeric_limits<uint64_t>::max();
  bool operator==(const Budget&) const = default;
};

struct LoadFailure {
  bool out_of_memory = false;
  std::string text;  // one line for the waiting requests
};

// How a runner's process ended unexpectedly.
struct ProcessEnd {
  std::string detail{};    // one line, or empty
  bool by_signal = false;  // killed or crashed: another attempt may succeed
};

enum class ActionKind : uint8_t {
  kStartLoad,  // key, bytes, version: start a runner with this budget
  kAssign,     // request, key: run the request on this runner
  kRefuse,     // request, status, text: error response before the request was assigned
  kFail,       // request, status, text: error response after it was assigned or its load failed
  kRetry,      // request: its runner is gone; the request waits again and later runs alone or fails
  kSetBudget,  // key, bytes, version, ceiling: set the budget; if lower, drop idle memory. Then
               // report, after wanted memory was taken
  kUnload,     // key, makes_room: end the runner and report when its process has ended
};

struct Action {
  ActionKind kind = ActionKind::kAssign;
  std::string key{};
  RequestId request = 0;
  uint64_t bytes = 0;
  uint64_t version = 0;
  uint64_t ceiling = Budget::kNoCeiling;
  int status = 0;  // HTTP status
  std::string text{};
  bool makes_room = false;  // an idle model is unloaded because its memory or place is needed
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
  std::string name;  // from the request that caused the load
  std::string key;
  bool is_embedding = false;
  Phase phase = Phase::kAbsent;
  bool is_stopping = false;    // it ends after its running requests
  uint64_t held_bytes = 0;     // last reported; 0 during the load
  uint64_t granted_bytes = 0;  // max memory that the runner may use
  Time expires_at = kNever;    // while busy or loading: as if it became idle now
  size_t n_running = 0;        // running requests
  size_t n_waiting = 0;
  std::string label{};  // like `name`
};

struct Snapshot {
  std::vector<ModelSnapshot> models;  // models with a runner, last expiry first, then by key
  uint64_t budget_bytes = 0;
  uint64_t granted_bytes = 0;
  size_t n_waiting = 0;                 // requests of all models, loaded or not
  std::vector<std::string> crashing{};  // names of models with too many crashes
};

// HTTP statuses and texts that clients know.
inline constexpr int kServerError = 500;
inline constexpr int kUnavailable = 503;
inline constexpr std::string_view kBusyText =
    "server busy, please try again.  maximum pending requests exceeded";
inline constexpr std::string_view kShutdownText = "server is shutting down";
inline constexpr std::string_view kCrashText =
    "model runner has unexpectedly stopped, this may be due to resource limitations or an internal "
    "error, check ollama server logs for details";
// Appended to kCrashText if a request ran during kMaxDeaths crashes, the last time alone.
inline constexpr std::string_view kCulpritText =
    "the runner has ended twice while this request ran, the last time alone; it is not "
    "retried";
inline constexpr std::string_view kRefusedText =
    "this request is refused for a minute: the model's runner has ended twice while it ran";

// Returns "model requires more system memory (5.6 GiB) than is available (4.0 GiB)".
std::string memory_refusal(uint64_t needed_bytes, uint64_t available_bytes);

// The identity of a runner: its weights and everything that changes them. The order of adapters
// matters; `options` are those that change weights. Different parts have different keys. Keys sort
// by path.
struct RunnerParts {
  std::string path;  // path of the weights' blob
  std::vector<std::string> adapters{};
  std::vector<std::string> projectors{};
  std::vector<std::string> drafts{};
  std::vector<std::string> options{};
};
std::string runner_key(const RunnerParts& parts);

}  // namespace billow::scheduler
