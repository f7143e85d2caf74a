// What the planner knows of one model: its runner, its memory, its requests. Owned by the planner;
// one thread at a time.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>

#include "scheduler/crash_history.h"
#include "scheduler/messages.h"

namespace billow::scheduler {

// The order in which requests came.
using Arrival = uint64_t;
inline constexpr Arrival kNoBarrier = std::numeric_limits<Arrival>::max();

struct Ticket {
  Request request;
  Arrival arrival = 0;
  size_t n_deaths = 0;  // of runners, while it ran

  // It may be what ended a runner, so it runs alone.
  bool is_suspect() const { return n_deaths > 0; }
};

struct ModelState {
  std::string key;
  std::string name;
  std::string label;
  bool is_embedding = false;
  Phase phase = Phase::kAbsent;

  std::map<Arrival, Ticket> waiting;    // first in, first out
  std::map<RequestId, Ticket> running;  // the references

  // Memory. The runner may use granted_bytes; asked_bytes, at most as many, is the budget it was
  // last told. Both are equal once it has given back what it was asked for.
  uint64_t granted_bytes = 0;
  uint64_t asked_bytes = 0;
  uint64_t version = 0;         // of asked_bytes
  bool ask_is_pending = false;  // no report goes by asked_bytes yet
  uint64_t fixed_bytes = 0;     // held when it was loaded
  uint64_t scratch_bytes = 0;   // the most of the requests that it was assigned: it keeps that
  uint64_t held_bytes = 0;      // as last reported
  uint64_t cached_bytes = 0;
  uint64_t wanted_bytes = 0;
  bool is_asking = false;       // a running request stands still until it has them, or cannot
  uint64_t promised_bytes = 0;  // granted for what was wanted, and not yet reported as held
  bool wants_all = false;  // it ran out of memory while loading: once more, with the whole budget

  Duration session{};
  Time expires_at = kNever;            // while idle
  Arrival stop_barrier = kNoBarrier;   // told to end: later arrivals wait for the next runner
  Arrival drain_barrier = kNoBarrier;  // the same, because another needs its room
  Arrival drained_for = kNoBarrier;    // the arrival that needs it
  Time last_progress{};
  uint64_t n_loaded = 0;
  uint64_t n_finished = 0;  // requests that this runner has answered
  CrashHistory crashes;

  bool has_runner() const { return phase != Phase::kAbsent; }
  bool is_stopping() const { return stop_barrier != kNoBarrier; }
  // Whether `more` may run beside the running requests: a suspect shares the runner with nobody.
  bool can_join(const Ticket& more, size_t max_parallel) const;
  // The first request that this runner is to serve; null where none waits for it.
  const Ticket* head() const;

  // What must not be taken from the runner: what it holds for good and for its requests. With
  // `more`, also what that request needs.
  uint64_t floor_bytes(const Ticket* more = nullptr) const;
  // How much its budget lacks for one more request.
  uint64_t lacking_bytes(const Ticket& more) const;
  uint64_t idle_bytes() const;
  // What it gives back before long, without another word.
  uint64_t returning_bytes() const;
  // Nothing runs, and the first that waits cannot be assigned as memory is.
  bool can_leave() const;

  // A running request is gone; its memory is idle from now on, whatever older reports say.
  void release(RequestId id, Time now);
  // There is no runner any more. The running requests are the caller's to deal with.
  void clear_runner();
};

}  // namespace billow::scheduler
