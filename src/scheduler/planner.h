// Which models are loaded: every decision of it, as a deterministic state machine without threads,
// sockets or clock. The caller tells what happened and when (times never go back), carries out the
// actions that come back in their order, and calls time_passed() when wakes_at() says so. What it
// is told of requests and runners that it does not know any more is disregarded, so that messages
// may cross. One thread at a time.
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
  // REQUIRES: a budget above 0.
  explicit Planner(const Options& options);

  // Each request that came is answered once by kRefuse or kFail, or ends by request_finished or
  // request_cancelled. Its id is not in use.
  Actions request_arrived(const Request& request, Time now);
  // The client has left, or the request has failed. No answer follows; a load goes on. Where it was
  // running, its place is free for the next one.
  Actions request_cancelled(RequestId id, Time now);
  Actions request_finished(RequestId id, Time now);

  // n_loaded: any count that rises while a load comes forward, like bytes.
  Actions load_progressed(const std::string& key, uint64_t n_loaded, Time now);
  // held_bytes: what the runner's ledger holds before its first request.
  Actions load_finished(const std::string& key, uint64_t held_bytes, Time now);
  // The runner is still there; kUnload follows.
  Actions load_failed(const std::string& key, const LoadFailure& failure, Time now);
  // The process has ended, as asked or of itself. `streamed`: the running requests of it that have
  // sent something to their client, so that they cannot begin again. The others run again, each
  // alone, until a second death: then the request fails, and so does any that asks the same within
  // the restart policy's window. Neither the death of a runner that had finished a
  // request nor that of one whose request ran alone for this reason counts against the model.
  Actions runner_gone(const std::string& key, const ProcessEnd& end,
                      std::span<const RequestId> streamed, Time now);
  Actions memory_changed(const std::string& key, const MemoryReport& report, Time now);

  // An empty request for a loaded model. What is not loaded is not changed.
  Actions keep_alive_changed(const std::string& key, Duration keep_alive, Time now);
  // Unload as soon as the requests that came before have finished; later ones load it again.
  Actions stop(const std::string& key, Time now);
  // No request is assigned any more; every runner ends when its requests have finished.
  Actions drain(Time now);
  Actions time_passed(Time now);

  // When time_passed() has something to do, if nothing else happens: after the last call's `now`.
  std::optional<Time> wakes_at() const;
  bool is_drained() const;
  Snapshot snapshot() const;

 private:
  enum class Growth : uint8_t {
    kDone,
    kComing,  // others give back what it takes
    kDenied,  // they cannot, as things are
  };
  struct Demand {
    Arrival arrival = 0;
    ModelState* model = nullptr;
  };

  // planner.cpp: what happened.
  ModelState* find(const std::string& key, Phase phase);
  bool starts_at_once(const ModelState& model, const Ticket& ticket) const;
  void set_session(ModelState& model, Duration session);
  void fail_waiting(ModelState& model, const std::string& text);
  void fail_load(ModelState& model, const LoadFailure& failure);
  void lose_running(ModelState& model, const std::string& text, std::span<const RequestId> streamed,
                    bool has_culprit);
  void refuse_culprits(ModelState& model);
  void leave(RequestId id, Time now);
  void answer(ActionKind kind, RequestId id, int status, const std::string& text);
  size_t n_waiting() const;
  Actions finish(Time now);  // passes until nothing follows, and the actions gathered

  // planner_pass.cpp: what follows from it.
  void pass();
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
  void unload(ModelState& model);

  Options options_;
  std::map<std::string, ModelState> models_;
  std::unordered_map<RequestId, std::string> key_of_;  // every request that is not answered
  Arrival next_arrival_ = 0;
  uint64_t next_version_ = 0;
  bool is_draining_ = false;
  bool room_is_claimed_ = false;  // a request waits for memory or a place of another model
  Time now_ = Time::min();
  Actions actions_;
};

}  // namespace billow::scheduler
