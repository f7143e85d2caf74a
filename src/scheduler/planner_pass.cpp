// Derives actions from the state of all models after each event. The same state gives the same
// actions. Planner::finish() repeats the pass until the pass gives no further actions.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/saturating.h"
#include "scheduler/planner.h"

namespace billow::scheduler {

void Planner::pass() {
  hold_bulk_back();
  end_stuck_loads();
  end_kept_stops();
  grow_running();
  refuse_impossible();
  // Assigns requests that fit now, so that no other model can take their memory.
  for (auto& [key, model] : models_) assign(model, false);
  meet_demands();
  for (auto& [key, model] : models_) assign(model, true);
  end_idle();
  forget_models();
}

// Bulk requests start only while no interactive request of any model waits, because all models
// share the processor and the memory. Running bulk requests continue.
void Planner::hold_bulk_back() {
  const bool holds = n_waiting_interactive() > 0;
  for (auto& [key, model] : models_) model.holds_bulk_back = holds;
}

// A model without a runner has stopped when no request that arrived before the stop waits.
void Planner::end_kept_stops() {
  for (auto& [key, model] : models_)
    if (!model.has_runner() && model.first() == nullptr) model.stop_barrier = kNoBarrier;
}

void Planner::end_stuck_loads() {
  for (auto& [key, model] : models_) {
    if (model.phase != Phase::kLoading) continue;
    if (later(model.last_progress, options_.load_timeout) > now_) continue;
    const auto limit = std::chrono::duration_cast<std::chrono::seconds>(options_.load_timeout);
    fail_load(model, {false, fmt::format("timed out waiting for the model runner to start - no "
                                         "progress for {} s",
                                         limit.count())});
  }
}

// Running requests get memory before waiting ones, because they finish sooner. Unloads idle models
// only for a paused request. If that is too little, sends the runner its max budget (the ceiling).
void Planner::grow_running() {
  for (auto& [key, model] : models_) {
    if (model.phase != Phase::kReady || model.wanted_bytes == 0) continue;
    const Growth growth = try_grow(model, model.wanted_bytes, model.is_asking);
    if (growth == Growth::kDone) {
      model.promised_bytes = saturating_add(model.promised_bytes, model.wanted_bytes);
      model.wanted_bytes = 0;
    } else if (growth == Growth::kDenied && model.is_asking) {
      set_budget(model, model.asked_bytes, ceiling_of(model));
    } else {
      continue;
    }
    model.is_asking = false;
  }
}

// Rejects requests that no longer fit, because a loaded model may be larger than calculated.
void Planner::refuse_impossible() {
  for (auto& [key, model] : models_) {
    while (model.phase == Phase::kReady && model.head() != nullptr) {
      const Request& request = model.head()->request;
      const uint64_t scratch = std::max(model.scratch_bytes, request.cost.scratch_bytes);
      const uint64_t own = saturating_add(request.cost.kv_bytes, request.cost.adapter_bytes);
      const uint64_t needed = saturating_add(saturating_add(model.fixed_bytes, scratch), own);
      if (needed <= options_.budget_bytes) break;
      respond(ActionKind::kRefuse, request.id, kServerError,
              memory_refusal(needed, options_.budget_bytes));
      model.take_head();
    }
  }
}

// A demand is a model's first request that waits for memory or a place. Demands are met in arrival
// order. While one demand waits for other models, later demands get no memory, so that they cannot
// take its share.
void Planner::meet_demands() {
  room_is_claimed_ = false;
  bool is_loading = std::ranges::any_of(
      models_, [](const auto& entry) { return entry.second.phase == Phase::kLoading; });
  for (const Demand& demand : demands()) {
    const bool is_load = demand.model->phase == Phase::kAbsent;
    if (is_load && is_loading) continue;  // one load at a time
    const bool is_met = is_load ? meet_load(demand) : meet_growth(demand);
    is_loading = is_loading || is_load;
    room_is_claimed_ = !is_met;
    if (room_is_claimed_) break;
  }
  if (room_is_claimed_) return;
  for (auto& [key, model] : models_) model.drain_barrier = model.drained_for = kNoBarrier;
}

std::vector<Planner::Demand> Planner::demands() {
  std::vector<Demand> found;
  for (auto& [key, model] : models_) {
    const bool loads = model.phase == Phase::kAbsent && model.head() != nullptr &&
                       model.crashes.restart_at() <= now_;
    // If the model is busy, its request waits for the model's own memory: see assign().
    const bool grows = model.phase == Phase::kReady && model.running.empty() &&
                       model.head() != nullptr && model.lacking_bytes(*model.head()) > 0;
    if (loads || grows) found.push_back({model.waiting.begin()->first.arrival, &model});
  }
  std::ranges::sort(found, {}, &Demand::arrival);
  return found;
}

bool Planner::meet_load(const Demand& demand) {
  ModelState& model = *demand.model;
  const Request& first = model.head()->request;
  const size_t n_parallel = model.is_embedding ? 1 : options_.n_parallel;
  const auto bytes_for = [&](size_t n) {
    return std::min(options_.budget_bytes, model_bytes(first.cost, n));
  };
  // Other models are evicted for one request only. Further parallel requests get free memory. If
  // that is too little, they wait or the model grows later.
  const uint64_t min = model.wants_all ? options_.budget_bytes : bytes_for(1);
  const bool has_place = n_of_kind(model.is_embedding, false) < max_loaded();
  if (min > free_bytes() || !has_place) {
    const size_t n_staying = n_of_kind(model.is_embedding, true);
    claim_room(demand, min, n_staying >= max_loaded() ? n_staying - max_loaded() + 1 : 0);
    return false;
  }
  const uint64_t n_bytes = std::max(min, std::min(free_bytes(), bytes_for(n_parallel)));
  model.phase = Phase::kLoading;
  model.name = first.name;
  model.label = first.label;
  model.granted_bytes = model.asked_bytes = n_bytes;
  model.version = ++next_version_;
  if (!model.is_stopping()) {
    const Duration usual = model.kept_until > now_ ? model.session : options_.keep_alive;
    model.session = std::max(first.keep_alive.value_or(usual), Duration::zero());
  }
  model.kept_until = Time{};
  model.last_progress = now_;
  actions_.push_back({.kind = ActionKind::kStartLoad,
                      .key = model.key,
                      .bytes = n_bytes,
                      .version = model.version});
  return true;
}

bool Planner::meet_growth(const Demand& demand) {
  ModelState& model = *demand.model;
  const uint64_t budget = saturating_add(model.asked_bytes, model.lacking_bytes(*model.head()));
  const uint64_t n_bytes = budget - std::min(budget, model.granted_bytes);
  if (n_bytes > free_bytes()) {
    claim_room(demand, n_bytes, 0);
    return false;
  }
  set_budget(model, budget);
  assign(model, false);
  return true;
}

// Makes other models free n_bytes and n_places. Memory that is already being freed counts, too.
void Planner::claim_room(const Demand& demand, uint64_t n_bytes, size_t n_places) {
  const uint64_t coming = free_bytes() + returning_bytes() - demand.model->returning_bytes();
  std::vector<ModelState*> models;
  const std::vector<Holder> others = holders(*demand.model, models);
  const Room room = make_room(others, n_bytes - std::min(n_bytes, coming), n_places);
  std::vector<ModelState*> awaited;
  for (const size_t i : room.waits_for) awaited.push_back(models[i]);
  for (auto& [key, model] : models_) {
    if (std::ranges::find(awaited, &model) == awaited.end()) {
      model.drain_barrier = model.drained_for = kNoBarrier;
    } else if (model.drained_for != demand.arrival) {
      // Requests that wait now are served before the model is unloaded, which saves a load.
      model.drained_for = demand.arrival;
      model.drain_barrier = next_arrival_;
    }
  }
  for (const auto& [i, bytes] : room.asks) set_budget(*models[i], models[i]->asked_bytes - bytes);
  for (const size_t i : room.unloads) unload(*models[i], true);
}

// Assigns the waiting requests of a ready model by turns, within its limits of requests and memory.
void Planner::assign(ModelState& model, bool may_grow) {
  while (model.phase == Phase::kReady) {
    const Ticket* head = model.head();
    if (head == nullptr || !model.can_join(*head, max_parallel(model))) return;
    const uint64_t lacking = model.lacking_bytes(*head);
    // The model's own running requests will free memory. No model is unloaded or blocked for this.
    if (lacking > 0 &&
        (!may_grow || room_is_claimed_ || try_grow(model, lacking, false) != Growth::kDone))
      return;
    Ticket ticket = model.take_head();
    model.begin_turn(ticket);
    if (ticket.request.keep_alive) set_session(model, *ticket.request.keep_alive);
    model.scratch_bytes = std::max(model.scratch_bytes, ticket.request.cost.scratch_bytes);
    const RequestId id = ticket.request.id;
    actions_.push_back({.kind = ActionKind::kAssign, .key = model.key, .request = id});
    model.running.emplace(id, std::move(ticket));
  }
}

void Planner::end_idle() {
  for (auto& [key, model] : models_) {
    const bool is_idle = model.running.empty() && model.first() == nullptr;
    if (!is_idle) continue;
    const bool is_ended = is_draining_ || model.is_stopping();
    if (model.phase == Phase::kLoading && is_ended) unload(model);
    if (model.phase == Phase::kReady && (is_ended || model.expires_at <= now_)) unload(model);
  }
}

void Planner::forget_models() {
  std::erase_if(models_, [&](const auto& entry) {
    const ModelState& model = entry.second;
    return !model.has_runner() && model.waiting.empty() && model.kept_until <= now_ &&
           model.crashes.forgotten(now_, options_.restarts);
  });
}

size_t Planner::max_parallel(const ModelState& model) const {
  const size_t n = model.is_embedding ? options_.n_parallel_embedding : options_.n_parallel;
  return std::max<size_t>(n, 1);
}

size_t Planner::max_loaded() const {
  return options_.n_max_loaded == 0 ? kAutoMaxLoaded : options_.n_max_loaded;
}

size_t Planner::n_of_kind(bool is_embedding, bool that_stay) const {
  return static_cast<size_t>(std::ranges::count_if(models_, [&](const auto& entry) {
    const ModelState& model = entry.second;
    return model.has_runner() && model.is_embedding == is_embedding &&
           !(that_stay && model.phase == Phase::kUnloading);
  }));
}

uint64_t Planner::free_bytes() const {
  uint64_t granted = 0;
  for (const auto& [key, model] : models_) granted += model.granted_bytes;
  BILLOW_CHECK(granted <= options_.budget_bytes);
  return options_.budget_bytes - granted;
}

uint64_t Planner::returning_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [key, model] : models_) bytes += model.returning_bytes();
  return bytes;
}

std::vector<Holder> Planner::holders(const ModelState& asker, std::vector<ModelState*>& models) {
  std::vector<Holder> found;
  for (auto& [key, model] : models_) {
    if (model.phase != Phase::kReady || &model == &asker) continue;
    found.push_back({key, model.session, model.granted_bytes - model.returning_bytes(),
                     model.idle_bytes(), model.can_leave(), model.drained_for != kNoBarrier,
                     model.is_embedding == asker.is_embedding});
    models.push_back(&model);
  }
  return found;
}

// Returns the max budget that the model could get. Assumes that other models free all idle memory
// and that all idle models are unloaded.
uint64_t Planner::ceiling_of(const ModelState& model) const {
  uint64_t bytes = saturating_add(model.granted_bytes, free_bytes());
  for (const auto& [key, other] : models_) {
    if (&other == &model) continue;
    bytes += other.can_leave() ? other.granted_bytes : other.returning_bytes() + other.idle_bytes();
  }
  return bytes;
}

// Tries to raise the model's budget by n_bytes. kDone: raised. kComing: other models are
// freeing enough memory. kDenied: neither. Unloads idle models only with may_unload.
Planner::Growth Planner::try_grow(ModelState& model, uint64_t n_bytes, bool may_unload) {
  const uint64_t budget = saturating_add(model.asked_bytes, n_bytes);
  const uint64_t lacking = saturating_subtract(budget, model.granted_bytes);
  if (lacking <= free_bytes()) {
    set_budget(model, budget);
    return Growth::kDone;
  }
  if (budget > ceiling_of(model)) return Growth::kDenied;
  const uint64_t coming = free_bytes() + returning_bytes() - model.returning_bytes();
  if (lacking <= coming) return Growth::kComing;
  std::vector<ModelState*> models;
  const Room room = make_room(holders(model, models), lacking - coming, 0);
  if (!room.waits_for.empty() || (!may_unload && !room.unloads.empty())) return Growth::kDenied;
  for (const auto& [i, bytes] : room.asks) set_budget(*models[i], models[i]->asked_bytes - bytes);
  for (const size_t i : room.unloads) unload(*models[i], true);
  return Growth::kComing;
}

void Planner::set_budget(ModelState& model, uint64_t bytes, uint64_t ceiling) {
  model.asked_bytes = bytes;
  model.granted_bytes = std::max(model.granted_bytes, bytes);
  model.ask_is_pending = model.granted_bytes > bytes;
  model.version = ++next_version_;
  actions_.push_back({.kind = ActionKind::kSetBudget,
                      .key = model.key,
                      .bytes = bytes,
                      .version = model.version,
                      .ceiling = ceiling});
}

void Planner::unload(ModelState& model, bool makes_room) {
  model.phase = Phase::kUnloading;
  actions_.push_back({.kind = ActionKind::kUnload, .key = model.key, .makes_room = makes_room});
}

}  // namespace billow::scheduler
