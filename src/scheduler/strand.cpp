#include "scheduler/strand.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "http/status.h"

namespace billow::scheduler {
namespace {

constexpr std::chrono::seconds kTimeout{
    1};  // a caller that gets no news for this long receives kWaiting

}  // namespace

Strand::Strand(const Options& options, StartRunner start, OnNews on_news)
    : options_(options),
      start_(std::move(start)),
      on_news_(std::move(on_news)),
      planner_(options),
      thread_([this] { run(); }) {}

Strand::~Strand() { close(); }

Time Strand::now() { return std::chrono::steady_clock::now().time_since_epoch(); }

// Sleeps until the planner needs a call, and joins ended watches, which cannot join their own
// threads.
void Strand::run() {
  Lock lock(mutex_);
  while (!is_closed_ || !ended_.empty()) {
    if (!ended_.empty()) {
      std::vector<std::shared_ptr<RunnerWatch>> ended = std::exchange(ended_, {});
      lock.unlock();
      ended.clear();
      lock.lock();
      continue;
    }
    sleeps_until_ = planner_.wakes_at();
    if (!sleeps_until_) {
      wakes_.wait(lock);
    } else if (*sleeps_until_ > now()) {
      wakes_.wait_until(lock, std::chrono::steady_clock::time_point(*sleeps_until_));
    } else {
      apply(planner_.time_passed(now()));
    }
  }
}

void Strand::apply(Actions actions) {
  todo_.insert(todo_.end(), std::make_move_iterator(actions.begin()),
               std::make_move_iterator(actions.end()));
  if (is_applying_) return;
  is_applying_ = true;
  while (!todo_.empty()) {
    const Action action = std::move(todo_.front());
    todo_.pop_front();
    carry_out(action);
  }
  is_applying_ = false;
  // If the thread wakes up too early, it finds the later time by itself.
  const std::optional<Time> next = planner_.wakes_at();
  if (!ended_.empty() || (next && (!sleeps_until_ || *next < *sleeps_until_))) wakes_.notify_all();
}

void Strand::carry_out(const Action& action) {
  const auto watch = watches_.find(action.key);
  Ticket* ticket = find(action.request);
  switch (action.kind) {
    case ActionKind::kStartLoad:
      return start_load(action);
    case ActionKind::kSetBudget:
      if (watch != watches_.end()) {
        watch->second->set_budget({action.bytes, action.version, action.ceiling});
      }
      return;
    case ActionKind::kUnload:
      if (watch != watches_.end()) {
        tell(action.key, {.kind = ModelNews::Kind::kUnloading,
                          .makes_room = action.makes_room,
                          .bytes = watch->second->health().held_bytes});
        return watch->second->end();
      }
      return apply(
          planner_.runner_gone(action.key, {}, {}, now()));  // the runner was never started
    case ActionKind::kAssign:
      if (ticket == nullptr) return;
      if (watch != watches_.end()) ticket->watch = watch->second;
      ticket->stages.push_back(JobStage::kAssigned);
      break;
    case ActionKind::kRetry:
      if (ticket == nullptr) return;
      ticket->watch.reset();
      ticket->stages.push_back(JobStage::kRetrying);
      break;
    case ActionKind::kRefuse:
    case ActionKind::kFail:
      if (ticket == nullptr) return;
      ticket->watch.reset();
      ticket->status = action.status;
      ticket->text = action.text;
      break;
  }
  ticket->changed.notify_all();
}

void Strand::start_load(const Action& action) {
  // The planner loads a model for waiting requests. The first one has the launch options.
  const Ticket* first = nullptr;
  for (const auto& [id, ticket] : tickets_) {
    if (ticket->job.key != action.key || ticket->watch || ticket->status != 0) continue;
    if (first == nullptr || id < first->id) first = ticket.get();
    ticket->stages.push_back(JobStage::kLoading);
    ticket->changed.notify_all();
  }
  try {
    if (first == nullptr) throw std::logic_error("no request waits for the model");
    const Job& job = first->job;
    const size_t n_parallel =
        job.is_embedding ? options_.n_parallel_embedding : options_.n_parallel;
    const Launch launch = {.key = job.key,
                           .name = job.name,
                           .weights = job.weights,
                           .is_embedding = job.is_embedding,
                           .n_parallel = std::max<size_t>(n_parallel, 1),
                           .budget_bytes = action.bytes,
                           .engine = job.engine};
    watches_[action.key] = std::make_shared<RunnerWatch>(launch, action.version, start_,
                                                         static_cast<RunnerEvents&>(*this));
    loading_ = action.key;
    tell(action.key, {.kind = ModelNews::Kind::kLoading});
  } catch (const std::exception& error) {
    apply(planner_.load_failed(action.key, {false, error.what()}, now()));
  }
}

void Strand::tell(const std::string& key, ModelNews news) const {
  const auto watch = watches_.find(key);
  if (!on_news_ || watch == watches_.end()) return;
  news.name = watch->second->name();
  on_news_(news);
}

Strand::Ticket* Strand::find(RequestId id) {
  const auto found = tickets_.find(id);
  return found == tickets_.end() ? nullptr : found->second.get();
}

std::shared_ptr<Strand::Ticket> Strand::arrive(const Job& job, const std::stop_token& stop,
                                               const OnStage& on_stage) {
  if (stop.stop_requested()) throw Cancelled();
  const auto ticket = std::make_shared<Ticket>();
  ticket->job = job;
  Lock lock(mutex_);
  ticket->id = next_id_++;
  tickets_[ticket->id] = ticket;
  if (loading_ == job.key) ticket->stages.push_back(JobStage::kLoading);
  apply(planner_.request_arrived({.id = ticket->id,
                                  .key = job.key,
                                  .name = job.name,
                                  .is_embedding = job.is_embedding,
                                  .cost = job.cost,
                                  .keep_alive = job.keep_alive,
                                  .label = job.label,
                                  .digest = job.digest,
                                  .tenant = job.tenant,
                                  .work = job.work,
                                  .weight = job.weight,
                                  .is_bulk = job.is_bulk},
                                 now()));
  try {
    wait_for_runner(lock, *ticket, stop, on_stage);
  } catch (...) {
    if (lock.owns_lock()) lock.unlock();
    leave(*ticket);
    throw;
  }
  return ticket;
}

void Strand::wait_for_runner(Lock& lock, Ticket& ticket, const std::stop_token& stop,
                             const OnStage& on_stage) {
  for (;;) {
    if (ticket.status != 0) throw http::StatusError(ticket.status, ticket.text);
    if (!ticket.stages.empty()) {
      const JobStage stage = ticket.stages.front();
      ticket.stages.pop_front();
      if (!on_stage) continue;
      lock.unlock();
      on_stage(stage);
      lock.lock();
    } else if (ticket.watch) {
      return;
    } else if (!ticket.changed.wait_for(lock, stop, kTimeout, [&] {
                 return ticket.status != 0 || !ticket.stages.empty();
               })) {
      if (stop.stop_requested()) throw Cancelled();
      ticket.stages.push_back(JobStage::kWaiting);
    }
  }
}

void Strand::leave(const Ticket& ticket) {
  // Keeps the ticket until the lock is released, because its destruction may end a runner.
  std::shared_ptr<Ticket> owner;
  const std::scoped_lock lock(mutex_);
  const auto found = tickets_.find(ticket.id);
  if (found == tickets_.end()) return;
  owner = std::move(found->second);
  tickets_.erase(found);
  apply(owner->has_finished ? planner_.request_finished(owner->id, now(), owner->n_tokens)
                            : planner_.request_cancelled(owner->id, now(), owner->n_tokens));
  if (owner->watch) owner->watch->refresh();
}

std::shared_ptr<RunnerWatch> Strand::watch_of(const Ticket& ticket) const {
  const std::scoped_lock lock(mutex_);
  return ticket.watch;
}

std::shared_ptr<RunnerWatch> Strand::watch_of(const std::string& key) const {
  const std::scoped_lock lock(mutex_);
  const auto found = watches_.find(key);
  return found == watches_.end() ? nullptr : found->second;
}

void Strand::set_work(Ticket& ticket, uint64_t n_tokens) {
  const std::scoped_lock lock(mutex_);
  ticket.n_tokens = n_tokens;
}

void Strand::end_call(Ticket& ticket) {
  const std::scoped_lock lock(mutex_);
  ticket.has_streamed = false;
  ticket.has_finished = true;
}

bool Strand::may_stream(Ticket& ticket, const RunnerWatch& watch) {
  const std::scoped_lock lock(mutex_);
  if (ticket.has_streamed) return true;
  ticket.has_streamed = ticket.watch.get() == &watch;
  return ticket.has_streamed;
}

void Strand::recover(Ticket& ticket, const std::shared_ptr<RunnerWatch>& watch,
                     const std::string& what, const std::stop_token& stop,
                     const OnStage& on_stage) {
  Lock lock(mutex_);
  if (watch && ticket.watch == watch) {
    const uint64_t n_look = watch->look();
    const bool is_known = ticket.changed.wait(
        lock, stop, [&] { return ticket.watch != watch || watch->n_looked() >= n_look; });
    if (!is_known) throw Cancelled();
    if (ticket.watch == watch) {
      throw http::StatusError(kServerError,
                              "an error was encountered while running the model: " + what);
    }
  }
  wait_for_runner(lock, ticket, stop, on_stage);
}

void Strand::set_keep_alive(const std::string& key, Duration keep_alive) {
  const std::scoped_lock lock(mutex_);
  apply(planner_.keep_alive_changed(key, keep_alive, now()));
}

void Strand::stop(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  apply(planner_.stop(key, now()));
}

bool Strand::drain(std::chrono::milliseconds timeout) {
  Lock lock(mutex_);
  is_draining_ = true;
  apply(planner_.drain(now()));
  return drained_.wait_for(lock, timeout,
                           [this] { return planner_.is_drained() && watches_.empty(); });
}

SchedulerState Strand::state() {
  const std::scoped_lock lock(mutex_);
  const Time time = now();
  apply(planner_.time_passed(time));
  const Snapshot snapshot = planner_.snapshot();
  SchedulerState state = {
      {},           snapshot.budget_bytes, snapshot.granted_bytes, snapshot.n_waiting,
      is_draining_, snapshot.crashing};
  for (const ModelSnapshot& model : snapshot.models) {
    LoadedModel& loaded = state.models.emplace_back();
    loaded.model = model;
    if (const auto watch = watches_.find(model.key); watch != watches_.end()) {
      loaded.pid = watch->second->pid();
      loaded.health = watch->second->health();
    }
    // A time centuries ahead counts as never, because it exceeds the range of the system clock.
    constexpr Duration kCentury = std::chrono::hours(24 * 365 * 100);
    if (model.expires_at == kNever || model.expires_at > time + kCentury) continue;
    loaded.expires_at =
        std::chrono::system_clock::now() +
        std::chrono::duration_cast<std::chrono::system_clock::duration>(model.expires_at - time);
  }
  return state;
}

void Strand::close() {
  Lock lock(mutex_);
  is_draining_ = true;
  apply(planner_.drain(now()));
  for (const auto& [key, watch] : watches_) watch->end();
  drained_.wait(lock, [this] { return watches_.empty(); });
  is_closed_ = true;
  wakes_.notify_all();
  lock.unlock();
  if (thread_.joinable()) thread_.join();
}

void Strand::load_progressed(const std::string& key, uint64_t n_loaded) {
  const std::scoped_lock lock(mutex_);
  apply(planner_.load_progressed(key, n_loaded, now()));
}

void Strand::load_finished(const std::string& key, uint64_t held_bytes) {
  const std::scoped_lock lock(mutex_);
  if (loading_ == key) loading_.clear();
  tell(key, {.kind = ModelNews::Kind::kReady});
  apply(planner_.load_finished(key, held_bytes, now()));
}

void Strand::load_failed(const std::string& key, const LoadFailure& failure) {
  const std::scoped_lock lock(mutex_);
  if (loading_ == key) loading_.clear();
  tell(key, {.kind = ModelNews::Kind::kFailed, .detail = failure.text});
  apply(planner_.load_failed(key, failure, now()));
}

void Strand::memory_changed(const std::string& key, const MemoryReport& report) {
  const std::scoped_lock lock(mutex_);
  apply(planner_.memory_changed(key, report, now()));
}

void Strand::found_well(const RunnerWatch& watch) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [id, ticket] : tickets_)
    if (ticket->watch.get() == &watch) ticket->changed.notify_all();
}

void Strand::runner_gone(RunnerWatch& watch, const std::string& detail) {
  const std::scoped_lock lock(mutex_);
  std::vector<RequestId> streamed;
  for (const auto& [id, ticket] : tickets_)
    if (ticket->watch.get() == &watch && ticket->has_streamed) streamed.push_back(id);
  const std::string key = watch.key();
  if (loading_ == key) loading_.clear();
  tell(key, {.kind = ModelNews::Kind::kUnloaded, .detail = detail});
  // Another runner may start before this thread ends. The strand's thread joins this one.
  if (const auto found = watches_.find(key); found != watches_.end()) {
    ended_.push_back(std::move(found->second));
    watches_.erase(found);
  }
  apply(planner_.runner_gone(key, {detail, detail.starts_with("signal ")}, streamed, now()));
  drained_.notify_all();
}

}  // namespace billow::scheduler
