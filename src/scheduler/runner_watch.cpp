#include "scheduler/runner_watch.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include "base/log.h"

namespace billow::scheduler {
namespace {

constexpr const char* kMemoryPhrase = "model requires more system memory";

// Returns the text that clients look for. `error` may be empty.
std::string memory_text(const std::string& error) {
  if (error.find(kMemoryPhrase) != std::string::npos) return error;
  return std::string(kMemoryPhrase) + " than is available" + (error.empty() ? "" : ": " + error);
}

std::string load_failure_text(const RunnerHealth& health) {
  return health.out_of_memory ? memory_text(health.error)
                              : "model runner process has terminated: " + health.error;
}

// Returns the error of a process that ended because its load ran out of memory. `end` is its
// Runner::end_of_process().
std::optional<std::string> out_of_memory_error(std::string_view end) {
  const std::string status = "exit status " + std::to_string(kOutOfMemoryStatus);
  if (end == status) return "";
  if (!end.starts_with(status + ": ")) return std::nullopt;
  return std::string(end.substr(status.size() + 2));
}

}  // namespace

RunnerWatch::RunnerWatch(const Launch& launch, uint64_t version, StartRunner start,
                         RunnerEvents& events, const WatchTimes& times)
    : launch_([&] {
        Launch with_end = launch;
        with_end.on_end = [this] {
          const std::scoped_lock lock(mutex_);
          has_ended_ = true;
          changed_.notify_all();
        };
        return with_end;
      }()),
      first_version_(version),
      start_(std::move(start)),
      times_(times),
      events_(events) {
  thread_ = std::thread([this] { run(); });
}

RunnerWatch::~RunnerWatch() {
  end();
  thread_.join();
}

void RunnerWatch::set_budget(const Budget& budget) {
  const std::scoped_lock lock(mutex_);
  budget_ = budget;
  must_ask_ = true;
  changed_.notify_all();
}

void RunnerWatch::ask_soon() {
  const std::scoped_lock lock(mutex_);
  must_ask_ = true;
  changed_.notify_all();
}

void RunnerWatch::end() {
  const std::scoped_lock lock(mutex_);
  must_end_ = true;
  changed_.notify_all();
}

void RunnerWatch::refresh() {
  const std::scoped_lock lock(mutex_);
  if (std::exchange(has_changed_, true)) return;
  changed_.notify_all();
}

uint64_t RunnerWatch::look() {
  const std::scoped_lock lock(mutex_);
  must_ask_ = true;
  changed_.notify_all();
  return ++n_look_;
}

uint64_t RunnerWatch::n_looked() const {
  const std::scoped_lock lock(mutex_);
  return n_looked_;
}

std::shared_ptr<Runner> RunnerWatch::runner() const {
  const std::scoped_lock lock(mutex_);
  return runner_;
}

RunnerHealth RunnerWatch::health() const {
  const std::scoped_lock lock(mutex_);
  return health_;
}

pid_t RunnerWatch::pid() const {
  const std::shared_ptr<Runner> started = runner();
  return started ? started->pid() : 0;
}

void RunnerWatch::run() {
  has_failed_ = !start();
  while (wait()) {
    if (has_failed_) continue;
    send_budget();
    if (!ask()) break;
  }
  finish();
}

bool RunnerWatch::start() {
  try {
    std::shared_ptr<Runner> made = start_(launch_);
    const std::scoped_lock lock(mutex_);
    runner_ = std::move(made);
    return true;
  } catch (const std::exception& error) {
    events_.load_failed(key(), {false, error.what()});
    return false;
  }
}

std::chrono::milliseconds RunnerWatch::pause() const {
  // A new budget takes effect in the next pass. Other models may wait for the memory that it frees.
  if (sent_ && Clock::now() - sent_at_ < times_.max_until_sent) return times_.min;
  if (is_ready_) return times_.ready;
  return Clock::now() - started_ < times_.soon ? times_.first : times_.loading;
}

std::chrono::milliseconds RunnerWatch::shortest_pause() const {
  if (must_ask_) return std::min(times_.min, pause());
  return has_changed_ ? std::min(times_.changed, pause()) : pause();
}

bool RunnerWatch::must_end() const {
  const std::scoped_lock lock(mutex_);
  return must_end_;
}

void RunnerWatch::wait_for_end() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, times_.until_end, [this] { return must_end_ || has_ended_; });
}

bool RunnerWatch::wait() {
  std::unique_lock lock(mutex_);
  const auto is_over = [this] { return must_end_ || (has_ended_ && runner_); };
  if (has_failed_) {  // no more health requests
    changed_.wait(lock, is_over);
    return false;
  }
  while (!is_over()) {
    const Clock::time_point next = asked_ + shortest_pause();
    if (Clock::now() >= next) break;
    changed_.wait_until(lock, next);
  }
  must_ask_ = has_changed_ = false;
  return !is_over();
}

// If the runner does not accept the budget, the health requests will show that it is broken.
void RunnerWatch::send_budget() {
  const std::scoped_lock sending(sending_);
  std::optional<Budget> budget;
  {
    const std::scoped_lock lock(mutex_);
    if (is_ready_) budget = std::exchange(budget_, std::nullopt);
  }
  if (!budget) return;
  try {
    runner()->set_budget(*budget);
    const std::scoped_lock lock(mutex_);
    sent_ = budget->version;
    sent_at_ = Clock::now();
  } catch (const std::exception& error) {
    log::warn(launch_.name + ": cannot set the memory budget: " + error.what());
    const std::scoped_lock lock(mutex_);
    if (!budget_) budget_ = budget;  // retried with the next health request
  }
}

bool RunnerWatch::ask() {
  uint64_t n_look = 0;
  {
    const std::scoped_lock lock(mutex_);
    n_look = n_look_;
  }
  RunnerHealth health;
  try {
    health = runner_->health();
    n_failures_ = 0;
  } catch (const std::exception& error) {
    asked_ = Clock::now();
    if (!runner_->end_of_process().empty()) return false;
    // During a load, the planner's timeout applies.
    if (!is_ready_) return true;
    // look() makes checks follow one another quickly. Those are one failure: a process that is
    // ending closes its socket before the system reports its end, and that report says why.
    if (n_failures_ > 0 && asked_ - failed_at_ < times_.ready) return true;
    failed_at_ = asked_;
    if (++n_failures_ < times_.n_failures) return true;
    wait_for_end();
    if (!runner_->end_of_process().empty()) return false;
    detail_ = std::string("it does not respond: ") + error.what();
    return false;
  }
  asked_ = Clock::now();
  {
    const std::scoped_lock lock(mutex_);
    health_ = health;
  }
  report(health);
  if (is_ready_ && health.status == RunnerStatus::kFailed) {
    detail_ = health.error;
    return false;
  }
  bool is_asked = false;
  {
    const std::scoped_lock lock(mutex_);
    is_asked = n_look > n_looked_;
    n_looked_ = n_look;
  }
  if (is_asked) events_.found_well(*this);
  return true;
}

void RunnerWatch::report(const RunnerHealth& health) {
  if (!is_ready_) {
    if (health.status == RunnerStatus::kFailed) {
      has_failed_ = true;
      events_.load_failed(key(), {health.out_of_memory, load_failure_text(health)});
    } else if (health.status == RunnerStatus::kReady) {
      is_ready_ = true;
      const auto ms =
          std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - started_);
      log::info(launch_.name + ": loaded in " + std::to_string(ms.count()) + " ms");
      events_.load_finished(key(),
                            health.held_bytes - std::min(health.held_bytes, health.cached_bytes));
    } else {
      events_.load_progressed(key(), health.n_loaded);
    }
  } else if (health.status == RunnerStatus::kReady) {
    const uint64_t version = health.budget_version == 0 ? first_version_ : health.budget_version;
    {
      const std::scoped_lock lock(mutex_);
      if (sent_ == version) sent_.reset();
    }
    events_.memory_changed(key(), {version, health.held_bytes, health.cached_bytes,
                                   health.wanted_bytes, health.is_asking});
  }
}

void RunnerWatch::finish() {
  if (runner_) {
    runner_->end();
    // Keeps the reason if the runner was ended for its behaviour. Otherwise, uses the reason of the
    // process.
    const bool is_asked_for = detail_.empty() && must_end();
    if (detail_.empty()) detail_ = runner_->end_of_process();
    const std::string text = launch_.name + ": the runner has ended: " + detail_;
    is_asked_for ? log::info(text) : log::warn(text);
    // The process may end before its health shows that the load has failed.
    const std::optional<std::string> error = out_of_memory_error(detail_);
    if (error && !is_ready_ && !has_failed_)
      events_.load_failed(key(), {.out_of_memory = true, .text = memory_text(*error)});
  }
  events_.runner_gone(*this, detail_);
}

}  // namespace billow::scheduler
