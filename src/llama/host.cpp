#include "llama/host.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/log.h"
#include "llama/log_line.h"
#include "llama/wire.h"

namespace billow::llama {
namespace {

constexpr std::chrono::milliseconds kPollEvery{20};
constexpr std::chrono::milliseconds kPollTimeout{1000};
constexpr std::chrono::milliseconds kWatchEvery{2000};
constexpr std::chrono::milliseconds kEndTimeout{2000};
constexpr std::chrono::milliseconds kLogTimeout{5000};

}  // namespace

Host::Host(HostOptions options, Pool pool)
    : options_(std::move(options)), socket_(options_.command.socket), pool_(std::move(pool)) {
  thread_ = std::thread([this] { run(); });
  Lock lock(mutex_);
  changed_.wait(lock, [this] { return has_begun_ || !failure_.empty(); });
  if (failure_.empty()) return;
  is_closing_ = true;
  changed_.notify_all();
  const std::string failure = failure_;
  const ErrorCode code = is_out_of_memory_ ? ErrorCode::kOutOfMemory : ErrorCode::kIo;
  lock.unlock();
  thread_.join();
  throw Error(code, failure);
}

Host::~Host() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    is_closing_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

bool Host::restart_is_due() const {
  return pool_.needs_restart(0) && pool_.cells_of_budget() > pool_.n_cells();
}

bool Host::must_stop() const {
  if (!is_running_ || n_writing_ > 0) return false;
  return restart_is_due() || (pool_.is_above_budget() && !pool_.has_answers());
}

bool Host::must_start() const {
  return !is_running_ && failure_.empty() && (n_starts_ == 0 || pool_.has_answers());
}

void Host::run() {
  Lock lock(mutex_);
  Clock::time_point watched = Clock::now();
  while (!is_closing_) {
    if (has_ended_ && is_running_) {
      fail(lock, "llama-server has ended: " + child_->how_it_ended());
    } else if (must_stop()) {
      stop(lock);
    } else if (must_start()) {
      start(lock);
    } else if (is_running_ && Clock::now() - watched >= kWatchEvery) {
      lock.unlock();
      const bool is_well = answers(options_.timeout);
      lock.lock();
      if (!is_well && is_running_ && !has_ended_) fail(lock, "llama-server does not respond");
      watched = Clock::now();
    } else {
      changed_.wait_for(lock, kWatchEvery, [this] {
        return is_closing_ || (has_ended_ && is_running_) || must_stop() || must_start();
      });
    }
  }
  if (child_) stop(lock);
}

// Waiting calls throw the failure. Answers in flight fail when llama-server or this process ends.
void Host::fail(Lock& lock, std::string what) {
  const bool had_begun = is_running_;
  is_running_ = false;
  failure_ = std::move(what);
  changed_.notify_all();
  if (!had_begun || !options_.on_broken) return;
  lock.unlock();  // the callback may ask for the state
  options_.on_broken();
  lock.lock();
}

void Host::stop(Lock& lock) {
  is_running_ = false;
  pool_.ended();
  std::unique_ptr<process::ChildProcess> child = std::move(child_);
  lock.unlock();
  if (child) child->end(kEndTimeout);
  child.reset();
  ::unlink(socket_.c_str());
  lock.lock();
  changed_.notify_all();
}

void Host::start(Lock& lock) {
  const size_t n_cells = pool_.cells_of_budget();
  std::vector<std::string> command = options_.launcher;
  CommandOptions options = options_.command;
  options.n_cells = n_cells;
  const std::vector<std::string> program = command_of(options);
  command.insert(command.end(), program.begin(), program.end());
  const bool is_again = n_starts_++ > 0;
  has_ended_ = false;
  scratch_bytes_ = weight_bytes_ = gpu_bytes_ = 0;
  last_line_at_ = Clock::now().time_since_epoch().count();
  lock.unlock();
  std::unique_ptr<process::ChildProcess> child;
  std::string failure;
  std::string marker;
  try {
    ::unlink(socket_.c_str());
    child = std::make_unique<process::ChildProcess>(process::ChildOptions{
        .command = std::move(command),
        .name = options_.name,
        .on_end =
            [this] {
              has_ended_ = true;
              const std::scoped_lock guard(mutex_);
              changed_.notify_all();
            },
        .on_line = [this](std::string_view line) { return take_line(line); }});
    wait_until_ready(*child);
    child->wait_for_log(kLogTimeout);  // it says how much memory is used
    if (!options.projector.empty()) marker = ask_for_marker();
  } catch (const Error& error) {
    failure = error.what();
    if (child) child->end(std::chrono::milliseconds(0));
  }
  lock.lock();
  child_ = std::move(child);
  if (!failure.empty()) return fail(lock, std::move(failure));
  media_marker_ = std::move(marker);
  const uint64_t fixed_bytes = weight_bytes_ + scratch_bytes_ + options_.unlogged_bytes;
  pool_.began(n_cells, weight_bytes_ == 0 ? 0 : fixed_bytes);
  log::info(options_.name + (is_again ? ": restarted with " : ": started with ") +
            std::to_string(n_cells) + " positions of context, " +
            format_byte_size(pool_.held_bytes()));
  is_running_ = has_begun_ = true;
  changed_.notify_all();
}

void Host::wait_until_ready(process::ChildProcess& child) {
  for (;;) {
    if (has_ended_) throw Error(ErrorCode::kIo, "llama-server has ended: " + child.how_it_ended());
    if (answers(kPollTimeout)) return;
    const Clock::time_point last{Clock::duration(last_line_at_.load())};
    if (Clock::now() - last > options_.load_timeout)
      throw Error(ErrorCode::kIo, "llama-server was not ready in time");
    {
      const std::scoped_lock lock(mutex_);
      if (is_closing_) throw Error(ErrorCode::kIo, "llama-server was stopped while it loaded");
    }
    std::this_thread::sleep_for(kPollEvery);
  }
}

bool Host::answers(std::chrono::milliseconds timeout) const {
  try {
    http::Client client(endpoint(), {.connect_timeout = timeout, .idle_timeout = timeout});
    return client.send({.target = "/health"}).status == 200;
  } catch (const Error&) {
    return false;
  }
}

std::string Host::ask_for_marker() const {
  http::Client client(endpoint(), {.idle_timeout = options_.timeout});
  const http::Response answer = client.send({.target = "/props"});
  return media_marker_of(answer.status == 200 ? answer.body : "");
}

std::string Host::media_marker() const {
  const std::scoped_lock lock(mutex_);
  return media_marker_;
}

// Logs llama-server's errors as warnings and its other lines as debug lines, because its log is
// long.
std::string Host::take_line(std::string_view line) {
  last_line_at_ = Clock::now().time_since_epoch().count();
  const LogLine parsed = parse_log_line(line);
  const BufferLine buffer = parse_buffer_line(parsed.text);
  if (buffer.kind == BufferKind::kWeights) weight_bytes_ += buffer.bytes;
  if (buffer.kind == BufferKind::kScratch) scratch_bytes_ += buffer.bytes;
  const bool is_of_gpu = !buffer.device.starts_with("CPU") && !buffer.device.ends_with("_Host");
  if (buffer.kind != BufferKind::kNone && is_of_gpu) gpu_bytes_ += buffer.bytes;
  const std::string text = options_.name + ": " + parsed.text;
  parsed.level == LogLevel::kError ? log::warn(text) : log::debug(text);
  if (options_.on_line) options_.on_line();
  if (parsed.level != LogLevel::kError) return {};
  if (parsed.text.find("allocate") != std::string::npos) {
    const std::scoped_lock lock(mutex_);
    is_out_of_memory_ = true;
  }
  return parsed.text;
}

void Host::check_failure() const {
  if (!failure_.empty()) throw Error(ErrorCode::kIo, failure_);
}

// Counts a waiting answer, and what it waits for, until its wait ends. REQUIRES: the caller holds
// the host's mutex.
class Host::Wish {
 public:
  Wish(Host& host, size_t n_more) : host_(host), n_more_(n_more) { ++host_.n_waiting_; }
  ~Wish() {
    --host_.n_waiting_;
    now(Room::kNone);
    host_.changed_.notify_all();
  }
  Wish(const Wish&) = delete;
  Wish& operator=(const Wish&) = delete;

  void now(Room room) {
    if (room == room_) return;
    host_.n_asking_ += (room == Room::kLacking) - (room_ == Room::kLacking);
    host_.n_restart_waiters_ += (room == Room::kBusy) - (room_ == Room::kBusy);
    room_ = room;
    if (room == Room::kLacking)
      host_.wanted_bytes_ = std::max(host_.wanted_bytes_, host_.pool_.lacking_bytes(n_more_));
    else if (host_.n_asking_ == 0)
      host_.wanted_bytes_ = 0;
  }

 private:
  Host& host_;
  const size_t n_more_;
  Room room_ = Room::kNone;
};

Room Host::room_for(size_t n_had, size_t n_wanted) {
  const Room room = pool_.reserve(n_had, n_wanted, n_writing_ == 0);
  // No answer is being written: all answers with cells wait like this one. None would continue.
  if (room == Room::kFull && n_had > 0 && n_writing_ == 0) return Room::kNone;
  if (room == Room::kLacking && !options_.asks_for_memory) return Room::kNone;
  return room;
}

Host::Reserved Host::reserve(size_t n_had, size_t n_wanted, const std::stop_token& stop) {
  Lock lock(mutex_);
  const size_t n_starts = n_starts_;
  Room room = Room::kNone;
  bool is_decided = false;
  {
    Wish wish(*this, n_wanted - std::min(n_had, n_wanted));
    changed_.wait(lock, stop, [&] {
      if (!failure_.empty()) return true;
      room = room_for(n_had, n_wanted);
      wish.now(room);
      is_decided = room == Room::kThere || room == Room::kNone;
      return is_decided;
    });
  }
  check_failure();
  if (!is_decided) throw Error(ErrorCode::kIo, "request canceled");
  if (room == Room::kThere)
    return {.is_granted = true, .restarted = restart_is_due() || n_starts_ != n_starts};
  if (n_had > 0) return {};
  throw Error(ErrorCode::kOutOfMemory, "this request needs " +
                                           format_byte_size(pool_.lacking_bytes(n_wanted)) +
                                           " more memory than is available");
}

void Host::give_back(size_t n) {
  const std::scoped_lock lock(mutex_);
  pool_.give_back(n);
  changed_.notify_all();
}

std::unique_ptr<Host::Writing> Host::write(const std::stop_token& stop) {
  Lock lock(mutex_);
  ++n_waiting_;
  const bool is_ready = changed_.wait(lock, stop, [this] {
    return !failure_.empty() || (is_running_ && !restart_is_due() && n_restart_waiters_ == 0);
  });
  --n_waiting_;
  check_failure();
  if (!is_ready) throw Error(ErrorCode::kIo, "request canceled");
  ++n_writing_;
  return std::unique_ptr<Writing>(new Writing(*this));
}

Host::Writing::~Writing() {
  const std::scoped_lock lock(host_.mutex_);
  --host_.n_writing_;
  host_.changed_.notify_all();
}

void Host::set_budget(const runner::MemoryBudget& budget) {
  const std::scoped_lock lock(mutex_);
  pool_.set_budget(budget);
  wanted_bytes_ = 0;
  changed_.notify_all();
}

HostState Host::state() const {
  const std::scoped_lock lock(mutex_);
  return {.held_bytes = pool_.held_bytes(),
          .idle_bytes = pool_.idle_bytes(),
          .wanted_bytes = wanted_bytes_,
          .is_asking = n_asking_ > 0,
          .budget_version = pool_.budget().version,
          .gpu_bytes = is_running_ ? gpu_bytes_.load() : 0,
          .n_cells = pool_.n_cells(),
          .n_writing = n_writing_,
          .n_waiting = n_waiting_,
          .n_starts = n_starts_,
          .pid = child_ && is_running_ ? child_->pid() : 0,
          .failure = failure_};
}

}  // namespace billow::llama
