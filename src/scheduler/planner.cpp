#include "scheduler/planner.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace billow::scheduler {
namespace {

std::string with_detail(std::string_view text, const std::string& detail) {
  return detail.empty() ? std::string(text) : std::string(text) + ": " + detail;
}

}  // namespace

Planner::Planner(const Options& options) : options_(options) {
  BILLOW_CHECK(options.budget_bytes > 0);
  if (options_.load_timeout <= Duration::zero()) options_.load_timeout = kForever;
}

Actions Planner::request_arrived(const Request& request, Time now) {
  now_ = std::max(now_, now);
  BILLOW_CHECK(!key_of_.contains(request.id));
  if (is_draining_) {
    respond(ActionKind::kRefuse, request.id, kUnavailable, std::string(kShutdownText));
    return finish(now);
  }
  const uint64_t needed = model_bytes(request.cost, 1);
  if (needed > options_.budget_bytes) {
    respond(ActionKind::kRefuse, request.id, kServerError,
            memory_refusal(needed, options_.budget_bytes));
    return finish(now);
  }
  ModelState& model = models_[request.key];
  if (model.key.empty()) {
    model.key = request.key;
    model.name = request.name;
    model.label = request.label;
    model.is_embedding = request.is_embedding;
  }
  const bool is_suspect = model.crashes.is_suspect(request.digest, now_, options_.restarts);
  const Ticket ticket = {request, next_arrival_, is_suspect ? size_t{1} : size_t{0}};
  if (model.crashes.given_up(now_)) {
    respond(ActionKind::kRefuse, request.id, kServerError, std::string(kCrashText));
  } else if (model.crashes.is_refused(request.digest, now_, options_.restarts)) {
    respond(ActionKind::kRefuse, request.id, kServerError, std::string(kRefusedText));
  } else if (queue_is_full(request) && !starts_at_once(model, ticket)) {
    respond(ActionKind::kRefuse, request.id, kUnavailable, std::string(kBusyText));
  } else {
    key_of_[request.id] = request.key;
    ++next_arrival_;
    model.add_waiting(ticket);
  }
  return finish(now);
}

// Bulk requests take no place in the queue from others.
bool Planner::queue_is_full(const Request& request) const {
  const size_t n = request.is_bulk ? n_waiting() : n_waiting_interactive();
  return n >= std::max<size_t>(options_.n_max_queue, 1);
}

bool Planner::starts_at_once(const ModelState& model, const Ticket& ticket) const {
  const bool is_next =
      ticket.request.is_bulk ? n_waiting() == 0 : model.n_waiting_interactive() == 0;
  return model.phase == Phase::kReady && is_next &&
         ticket.arrival < std::min(model.stop_barrier, model.drain_barrier) &&
         model.can_join(ticket, max_parallel(model)) && model.lacking_bytes(ticket) == 0;
}

Actions Planner::request_cancelled(RequestId id, Time now, std::optional<uint64_t> n_tokens) {
  leave(id, now, n_tokens);
  return finish(now);
}

Actions Planner::request_finished(RequestId id, Time now, std::optional<uint64_t> n_tokens) {
  const auto key = key_of_.find(id);
  if (key != key_of_.end()) {
    ModelState& model = models_.at(key->second);
    if (const auto ticket = model.running.find(id); ticket != model.running.end()) {
      ++model.n_finished;
      model.crashes.clear(ticket->second.request.digest);
    }
  }
  leave(id, now, n_tokens);
  return finish(now);
}

void Planner::leave(RequestId id, Time now, std::optional<uint64_t> n_tokens) {
  now_ = std::max(now_, now);
  const auto found = key_of_.find(id);
  if (found == key_of_.end()) return;
  ModelState& model = models_.at(found->second);
  key_of_.erase(found);
  if (const auto running = model.running.find(id); running != model.running.end()) {
    model.end_turn(running->second, n_tokens);
    model.release(id, now_);
  } else {
    std::erase_if(model.waiting, [&](const auto& entry) { return entry.second.request.id == id; });
  }
}

Actions Planner::load_progressed(const std::string& key, uint64_t n_loaded, Time now) {
  now_ = std::max(now_, now);
  ModelState* model = find(key, Phase::kLoading);
  if (model != nullptr && n_loaded > model->n_loaded) {
    model->n_loaded = n_loaded;
    model->last_progress = now_;
  }
  return finish(now);
}

Actions Planner::load_finished(const std::string& key, uint64_t held_bytes, Time now) {
  now_ = std::max(now_, now);
  ModelState* model = find(key, Phase::kLoading);
  if (model == nullptr) return finish(now);
  if (held_bytes > model->granted_bytes) {
    // The header announced less memory. The model may use free memory. If that is too little, the
    // load fails.
    if (held_bytes - model->granted_bytes > free_bytes()) {
      fail_load(*model, {true, memory_refusal(held_bytes, options_.budget_bytes)});
      return finish(now);
    }
    set_budget(*model, held_bytes);
  }
  model->phase = Phase::kReady;
  model->n_finished = 0;
  model->wants_all = false;
  model->held_bytes = model->fixed_bytes = held_bytes;
  model->expires_at = later(now_, model->session);
  return finish(now);
}

Actions Planner::load_failed(const std::string& key, const LoadFailure& failure, Time now) {
  now_ = std::max(now_, now);
  if (ModelState* model = find(key, Phase::kLoading)) fail_load(*model, failure);
  return finish(now);
}

void Planner::fail_load(ModelState& model, const LoadFailure& failure) {
  const bool retry =
      failure.out_of_memory && !model.wants_all && model.granted_bytes < options_.budget_bytes;
  model.wants_all = retry;
  if (!retry) fail_waiting(model, failure.text);
  unload(model);
}

Actions Planner::runner_gone(const std::string& key, const ProcessEnd& end,
                             std::span<const RequestId> streamed, Time now) {
  now_ = std::max(now_, now);
  const auto found = models_.find(key);
  if (found == models_.end() || !found->second.has_runner()) return finish(now);
  ModelState& model = found->second;
  const Phase phase = std::exchange(model.phase, Phase::kAbsent);
  if (phase == Phase::kLoading) {
    model.wants_all = false;
    if (end.by_signal) model.crashes.record(now_, options_.restarts);
    if (!end.by_signal || model.crashes.given_up(now_))
      fail_waiting(model, with_detail("model runner process has terminated", end.detail));
  } else if (phase == Phase::kReady) {
    // A suspect runs alone, so that its crash says nothing about the model.
    const bool has_culprit = !model.running.empty() && model.running.begin()->second.is_suspect();
    if (model.n_finished == 0 && !has_culprit) model.crashes.record(now_, options_.restarts);
    const std::string text = with_detail(kCrashText, end.detail);
    lose_running(model, text, streamed, has_culprit);
    if (model.crashes.given_up(now_)) fail_waiting(model, text);
    refuse_culprits(model);
  }
  if (phase == Phase::kUnloading && !model.wants_all)
    model.clear_runner();
  else
    model.clear_runner_for_next(now_);
  return finish(now);
}

void Planner::lose_running(ModelState& model, const std::string& text,
                           std::span<const RequestId> streamed, bool has_culprit) {
  std::vector<Ticket> lost;
  for (auto& [id, ticket] : model.running) lost.push_back(std::move(ticket));
  model.running.clear();
  std::ranges::sort(lost, {}, &Ticket::arrival);
  std::set<uint64_t> digests;  // if the same prompt ran twice at the same time, that is one crash
  for (Ticket& ticket : lost) {
    digests.insert(ticket.request.digest);
    model.end_turn(ticket, 0);  // its work is lost; if it begins again, it pays then
  }
  for (const uint64_t digest : digests)
    model.crashes.suspect(digest, has_culprit, now_, options_.restarts);
  for (Ticket& ticket : lost) {
    const RequestId id = ticket.request.id;
    const bool is_culprit = ++ticket.n_deaths >= kMaxDeaths;
    const bool retry = std::ranges::find(streamed, id) == streamed.end() && !is_draining_ &&
                       !model.crashes.given_up(now_) && !is_culprit;
    if (retry) {
      actions_.push_back({.kind = ActionKind::kRetry, .key = model.key, .request = id});
      model.add_waiting(std::move(ticket));
    } else {
      respond(ActionKind::kFail, id, kServerError,
              is_culprit ? text + "; " + std::string(kCulpritText) : text);
    }
  }
}

// Fails waiting requests whose digest has caused too many crashes.
void Planner::refuse_culprits(ModelState& model) {
  std::erase_if(model.waiting, [&](const auto& entry) {
    const Request& request = entry.second.request;
    const bool is_refused = model.crashes.is_refused(request.digest, now_, options_.restarts);
    if (is_refused) respond(ActionKind::kFail, request.id, kServerError, std::string(kRefusedText));
    return is_refused;
  });
}

Actions Planner::memory_changed(const std::string& key, const MemoryReport& report, Time now) {
  now_ = std::max(now_, now);
  ModelState* model = find(key, Phase::kReady);
  if (model == nullptr) return finish(now);
  model->held_bytes = report.held_bytes;
  model->cached_bytes = std::min(report.cached_bytes, report.held_bytes);
  if (report.version == model->version) {
    model->ask_is_pending = false;
    // The runner may keep what it holds, and use its latest budget. Older budgets no longer count.
    model->granted_bytes =
        std::min(model->granted_bytes, std::max(model->asked_bytes, report.held_bytes));
    model->promised_bytes = 0;
    model->wanted_bytes = model->running.empty() ? 0 : report.wanted_bytes;
    model->is_asking = model->wanted_bytes > 0 && report.is_asking;
  }
  return finish(now);
}

Actions Planner::keep_alive_changed(const std::string& key, Duration keep_alive, Time now) {
  now_ = std::max(now_, now);
  const auto found = models_.find(key);
  if (found != models_.end()) set_session(found->second, keep_alive);
  return finish(now);
}

void Planner::set_session(ModelState& model, Duration session) {
  if (model.phase != Phase::kReady && model.phase != Phase::kLoading) return;
  model.session = std::max(session, Duration::zero());
  if (!model.is_stopping()) model.expires_at = later(now_, model.session);
}

Actions Planner::stop(const std::string& key, Time now) {
  now_ = std::max(now_, now);
  const auto found = models_.find(key);
  if (found != models_.end()) {
    ModelState& model = found->second;
    model.kept_until = Time{};
    set_session(model, Duration::zero());
    const bool stays = model.phase == Phase::kReady || model.phase == Phase::kLoading;
    const bool comes = !model.waiting.empty();  // it is loaded for the requests that wait
    if ((stays || comes) && !model.is_stopping()) model.stop_barrier = next_arrival_;
  }
  return finish(now);
}

Actions Planner::drain(Time now) {
  now_ = std::max(now_, now);
  is_draining_ = true;
  for (auto& [key, model] : models_) {
    for (const auto& [turn, ticket] : model.waiting)
      respond(ActionKind::kRefuse, ticket.request.id, kUnavailable, std::string(kShutdownText));
    model.waiting.clear();
  }
  return finish(now);
}

Actions Planner::time_passed(Time now) { return finish(now); }

std::optional<Time> Planner::wakes_at() const {
  Time at = kNever;
  for (const auto& [key, model] : models_) {
    if (model.phase == Phase::kLoading)
      at = std::min(at, later(model.last_progress, options_.load_timeout));
    if (model.phase == Phase::kReady && model.running.empty() && model.first() == nullptr)
      at = std::min(at, model.expires_at);
    if (model.phase == Phase::kAbsent && !model.waiting.empty() &&
        model.crashes.restart_at() > now_)
      at = std::min(at, model.crashes.restart_at());
  }
  return at == kNever ? std::nullopt : std::optional(at);
}

bool Planner::is_drained() const {
  return is_draining_ &&
         std::ranges::none_of(models_, [](const auto& entry) { return entry.second.has_runner(); });
}

Snapshot Planner::snapshot() const {
  Snapshot all = {{}, options_.budget_bytes, options_.budget_bytes - free_bytes(), n_waiting()};
  for (const auto& [key, model] : models_) {
    if (model.crashes.given_up(now_)) all.crashing.push_back(model.name);
    if (!model.has_runner()) continue;
    const bool is_busy = !model.running.empty() || model.phase == Phase::kLoading;
    const Time expires_at =
        is_busy && !model.is_stopping() ? later(now_, model.session) : model.expires_at;
    all.models.push_back({model.name, key, model.is_embedding, model.phase,
                          model.is_stopping() || model.phase == Phase::kUnloading, model.held_bytes,
                          model.granted_bytes, expires_at, model.running.size(),
                          model.waiting.size(), model.label});
  }
  std::ranges::sort(all.models, [](const ModelSnapshot& a, const ModelSnapshot& b) {
    return std::tie(b.expires_at, a.key) < std::tie(a.expires_at, b.key);
  });
  return all;
}

ModelState* Planner::find(const std::string& key, Phase phase) {
  const auto found = models_.find(key);
  return found != models_.end() && found->second.phase == phase ? &found->second : nullptr;
}

void Planner::fail_waiting(ModelState& model, const std::string& text) {
  for (const auto& [turn, ticket] : std::exchange(model.waiting, {}))
    respond(ActionKind::kFail, ticket.request.id, kServerError, text);
}

void Planner::respond(ActionKind kind, RequestId id, int status, const std::string& text) {
  key_of_.erase(id);
  actions_.push_back({.kind = kind, .request = id, .status = status, .text = text});
}

size_t Planner::n_waiting() const {
  size_t n = 0;
  for (const auto& [key, model] : models_) n += model.waiting.size();
  return n;
}

size_t Planner::n_waiting_interactive() const {
  size_t n = 0;
  for (const auto& [key, model] : models_) n += model.n_waiting_interactive();
  return n;
}

Actions Planner::finish(Time now) {
  now_ = std::max(now_, now);
  // A pass handles the models in turn. Memory that it takes from a later model can change the
  // decision for an earlier one. So passes repeat until one produces no action. This ends, because
  // every action is progress. It responds to or assigns a request, decides about a runner's want,
  // starts or ends a runner, or takes idle memory. Only an assigned request, a granted want and a
  // started runner give a model memory.
  size_t n_before = 0;
  do {
    n_before = actions_.size();
    pass();
  } while (actions_.size() > n_before);
  return std::exchange(actions_, {});
}

}  // namespace billow::scheduler
