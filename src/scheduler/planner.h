// Decides which models are loaded. A deterministic state machine without threads, sockets or clock.
// The caller reports each event with its time, which never decreases. It performs the returned
// actions in order and calls time_passed() at wakes_at(). The planner ignores events for requests
// and runners that no longer exist, because messages can cross. One thread at a time.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "scheduler/messages.h"
#include "scheduler/model_state.h"
#include "scheduler/placement.h"

namespace billow::scheduler {

class Planner {
 public:
  // REQUIRES: options.budget_bytes > 0.
  explicit Planner(const Options& options);

  // Each request ends exactly once: by kRefuse or kFail, or by request_finished or
  // request_cancelled. REQUIRES: its id is not in use.
  Actions request_arrived(const Request& request, Time now);
  // The client disconnected or the request failed. The request gets no response, and a load
  // continues. If the request was running, the next one gets its place. `n_tokens`: its real work,
  // if it is known; see Request::work.
  Actions request_cancelled(RequestId id, Time now, std::optional<uint64_t> n_tokens = {});
  Actions request_finished(RequestId id, Time now, std::optional<uint64_t> n_tokens = {});

  // n_loaded is any count that rises during a load, such as bytes.
  Actions load_progressed(const std::string& key, uint64_t n_loaded, Time now);
  // held_bytes is the runner's memory before its first request, from its ledger.
  Actions load_finished(const std::string& key, uint64_t held_bytes, Time now);
  // The runner still exists; kUnload follows.
  Actions load_failed(const std::string& key, const LoadFailure& failure, Time now);
  // The process has ended, as asked or unexpectedly. `streamed` are its running requests that have
  // sent data to their clients and cannot be retried. The other requests are retried, each alone.
  // At its second crash, a request fails, and the planner rejects equal requests within the window
  // of the restart policy. A crash counts against the model only if the runner had finished no
  // request and no suspect was running.
  Actions runner_gone(const std::string& key, const ProcessEnd& end,
                      std::span<const RequestId> streamed, Time now);
  Actions memory_changed(const std::string& key, const MemoryReport& report, Time now);

  // An empty request changes the session of a loaded model. No effect if the model is not loaded.
  Actions keep_alive_changed(const std::string& key, Duration keep_alive, Time now);
  // Unloads the model after all earlier requests have finished. Later requests load it again.
  Actions stop(const std::string& key, Time now);
  // Assigns no more requests. Every runner ends after its running requests.
  Actions drain(Time now);
  Actions time_passed(Time now);

  // Returns when time_passed() must be called if nothing else happens. Later than the last call's
  // `now`.
  std::optional<Time> wakes_at() const;
  bool is_drained() const;
  Snapshot snapshot() const;

 private:
  enum class Growth : uint8_t {
    kDone,
    kComing,  // other models will free the memory
    kDenied,  // other models cannot free the memory now
  };
  struct Demand {
    Arrival arrival = 0;
    ModelState* model = nullptr;
  };

  // In planner.cpp: handling of events.
  ModelState* find(const std::string& key, Phase phase);
  bool queue_is_full(const Request& request) const;
  bool starts_at_once(const ModelState& model, const Ticket& ticket) const;
  void set_session(ModelState& model, Duration session);
  void fail_waiting(ModelState& model, const std::string& text);
  void fail_load(ModelState& model, const LoadFailure& failure);
  void lose_running(ModelState& model, const std::string& text, std::span<const RequestId> streamed,
                    bool has_culprit);
  void refuse_culprits(ModelState& model);
  void leave(RequestId id, Time now, std::optional<uint64_t> n_tokens);
  void respond(ActionKind kind, RequestId id, int status, const std::string& text);
  size_t n_waiting() const;
  size_t n_waiting_interactive() const;
  Actions finish(Time now);  // runs passes until no action follows, and returns all actions

  // In planner_pass.cpp: the actions that follow from the state.
  void pass();
  void hold_bulk_back();
  void end_kept_stops();
  void end_stuck_loads();
  void grow_running();
  void refuse_impossible();
  void meet_demands();
  std::vector<Demand> demands();
  bool meet_load(const Demand& demand);
  bool meet_growth(const Demand& demand);
  void claim_room(const Demand& demand, uint64_t n_bytes, size_t n_places);
  void assign(ModelState& model, bool may_grow);
  void end_idle();
  void forget_models();

  size_t max_parallel(const ModelState& model) const;
  size_t max_loaded() const;
  size_t n_of_kind(bool is_embedding, bool that_stay) const;
  uint64_t free_bytes() const;
  uint64_t returning_bytes() const;
  std::vector<Holder> holders(const ModelState& asker, std::vector<ModelState*>& models);
  uint64_t ceiling_of(const ModelState& model) const;
  Growth try_grow(ModelState& model, uint64_t n_bytes, bool may_unload);
  void set_budget(ModelState& model, uint64_t bytes, uint64_t ceiling = Budget::kNoCeiling);
  void unload(ModelState& model, bool makes_room = false);

  Options options_;
  std::map<std::string, ModelState> models_;
  std::unordered_map<RequestId, std::string> key_of_;  // all requests without a response
  Arrival next_arrival_ = 0;
  uint64_t next_version_ = 0;
  bool is_draining_ = false;
  bool room_is_claimed_ = false;  // a request waits for memory or a place of another model
  Time now_ = Time::min();
  Actions actions_;
};

}  // namespace billow::scheduler
