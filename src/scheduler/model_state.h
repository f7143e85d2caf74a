// The planner's state of one model: its runner, its memory, its requests. The planner owns the
// state. Not thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "scheduler/crash_history.h"
#include "scheduler/fair_turns.h"
#include "scheduler/messages.h"

namespace billow::scheduler {

// The arrival order of requests.
using Arrival = uint64_t;
inline constexpr Arrival kNoBarrier = std::numeric_limits<Arrival>::max();

// The place of a request in the queue of its model: bulk requests come after all others.
struct Turn {
  bool is_bulk = false;
  Arrival arrival = 0;
  auto operator<=>(const Turn&) const = default;
};

struct Ticket {
  Request request;
  Arrival arrival = 0;
  size_t n_deaths = 0;    // crashes of runners while it ran
  bool has_turn = false;  // its work counts in the account of its tenant

  // Returns whether the request may have caused a crash. If so, it runs alone.
  bool is_suspect() const { return n_deaths > 0; }
  Turn turn() const { return {request.is_bulk, arrival}; }
};

struct ModelState {
  std::string key;
  std::string name;
  std::string label;
  bool is_embedding = false;
  Phase phase = Phase::kAbsent;

  std::map<Turn, Ticket> waiting;
  std::map<RequestId, Ticket> running;  // these keep the runner loaded

  // Memory. The runner may use granted_bytes. asked_bytes is its latest budget, at most
  // granted_bytes. Both are equal after the runner has freed the difference.
  uint64_t granted_bytes = 0;
  uint64_t asked_bytes = 0;
  uint64_t version = 0;         // of asked_bytes
  bool ask_is_pending = false;  // the runner has not yet applied a lower asked_bytes
  uint64_t fixed_bytes = 0;     // held after the load
  uint64_t scratch_bytes = 0;   // max of its assigned requests; the runner keeps it
  uint64_t held_bytes = 0;      // last reported
  uint64_t cached_bytes = 0;
  uint64_t wanted_bytes = 0;
  bool is_asking = false;  // a running request is paused until wanted_bytes are granted or denied
  uint64_t promised_bytes = 0;  // granted for wanted_bytes, and not yet reported as held
  bool wants_all = false;       // a load ran out of memory: retry with the whole budget

  Duration session{};
  Time kept_until{};         // after an unwanted end: the next runner keeps the session until then
  Time expires_at = kNever;  // while idle
  Arrival stop_barrier = kNoBarrier;   // stopping: later arrivals wait for the next runner
  Arrival drain_barrier = kNoBarrier;  // like stop_barrier, because another model needs its memory
  Arrival drained_for = kNoBarrier;    // the arrival that needs its memory
  Time last_progress{};
  uint64_t n_loaded = 0;
  uint64_t n_finished = 0;  // requests that this runner has finished
  FairTurns turns;          // empty until a tenant with a name arrives
  CrashHistory crashes;
  bool holds_bulk_back = false;  // a request that is not bulk waits, for this or another model

  bool has_runner() const { return phase != Phase::kAbsent; }
  bool is_stopping() const { return stop_barrier != kNoBarrier; }
  // Returns whether `more` may run with the running requests. A suspect always runs alone. A bulk
  // request leaves a quarter of the places free for others, and at least one.
  bool can_join(const Ticket& more, size_t max_parallel) const;
  // Returns the next request that waits for this runner, or null: the first one of the tenant whose
  // turn it is. Bulk requests come after all others.
  const Ticket* first() const;
  // Returns the same request, or null if it must not start because bulk requests are held back.
  const Ticket* head() const;
  // Removes the head from the waiting requests. REQUIRES: there is one.
  Ticket take_head();
  // Adds a request that waits.
  void add_waiting(Ticket ticket);
  // Counts the expected work of a request that starts. REQUIRES: the request was the head.
  void begin_turn(Ticket& ticket);
  // Replaces the expected work of a request that ends by its real work, n_tokens, if it is known.
  void end_turn(Ticket& ticket, std::optional<uint64_t> n_tokens);
  // Returns the number of waiting requests that are not bulk.
  size_t n_waiting_interactive() const;

  // Returns the memory that the runner must keep: its fixed memory and the memory of its requests.
  // With `more`, includes the need of that request.
  uint64_t floor_bytes(const Ticket* more = nullptr) const;
  // Returns the bytes that its budget lacks for one more request. If this is a bulk request and
  // others run, counts its KV memory twice, so that memory for other requests stays free.
  uint64_t lacking_bytes(const Ticket& more) const;
  uint64_t idle_bytes() const;
  // Returns the bytes that the runner will free soon, without a new action.
  uint64_t returning_bytes() const;
  // Returns whether the runner may be unloaded: no request runs, and none can start in the budget.
  bool can_leave() const;

  // Removes a running request. Its memory counts as idle immediately, before the runner reports it.
  void release(RequestId id, Time now);
  // Resets the state after the runner has ended. The caller must handle the running requests. A
  // promise to stop stays for the requests that arrived before it: see Planner::end_kept_stops().
  void clear_runner();
  // The same if the planner did not want the end, so that the next runner has the same session.
  void clear_runner_for_next(Time now);
};

}  // namespace billow::scheduler
