#include "process/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"
#include "http/lines.h"
#include "process/spawn.h"

namespace billow::process {
namespace {

constexpr size_t kMaxLineBytes = 4096;

std::string description(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return fmt::format("exit status {}", info.si_status);
  const char* words = ::sigdescr_np(info.si_status);
  return fmt::format("signal {} ({})", info.si_status, words != nullptr ? words : "unknown");
}

}  // namespace

ChildProcess::ChildProcess(ChildOptions options) : options_(std::move(options)) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw system_error("cannot make a pipe for", options_.command.front(), errno);
  log_ = ends[0];
  try {
    pid_ = spawn(options_.command, {.error = ends[1]});
  } catch (...) {
    ::close(ends[0]);
    ::close(ends[1]);
    throw;
  }
  ::close(ends[1]);
  try {
    watcher_ = std::thread([this] { watch(); });
  } catch (...) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(log_);
    throw;
  }
}

ChildProcess::~ChildProcess() {
  end(std::chrono::milliseconds(0));
  watcher_.join();
}

std::string ChildProcess::how_it_ended() const {
  const std::scoped_lock lock(mutex_);
  return how_it_ended_;
}

// The system does not reuse the process id before the child is reaped.
void ChildProcess::send(int signal) const {
  if (how_it_ended_.empty()) ::kill(pid_, signal);
}

void ChildProcess::end(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const auto has_ended = [this] { return has_ended_; };
  if (timeout > std::chrono::milliseconds(0)) {
    send(SIGTERM);
    ended_.wait_for(lock, timeout, has_ended);
  }
  send(SIGKILL);
  ended_.wait(lock, has_ended);
}

void ChildProcess::wait_for_log(std::chrono::milliseconds timeout) const {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (std::chrono::steady_clock::now() < deadline) {
    {
      const std::scoped_lock lock(mutex_);
      int n_left = 0;
      // In this order: the thread says that it reads before it takes the bytes.
      if (log_ < 0 || ::ioctl(log_, FIONREAD, &n_left) != 0 || (n_left == 0 && !is_reading_))
        return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// The log ends when the last process with the write end of the pipe ends: usually the child.
void ChildProcess::watch() {
  using Lines = http::LineSplitter;
  Lines lines(kMaxLineBytes, Lines::Ends::kNewline, Lines::LongLines::kAreDropped);
  const auto on_line = [this](std::string_view line) { forward(line); };
  std::array<char, kMaxLineBytes> buffer{};
  for (;;) {
    pollfd readable{.fd = log_, .events = POLLIN, .revents = 0};
    if (::poll(&readable, 1, -1) < 0 && errno == EINTR) continue;
    is_reading_ = true;
    const ssize_t n = ::read(log_, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    lines.feed({buffer.data(), static_cast<size_t>(n)}, on_line);
    is_reading_ = false;
  }
  lines.finish(on_line);
  {
    const std::scoped_lock lock(mutex_);
    ::close(log_);
    log_ = -1;
  }
  reap();
}

void ChildProcess::forward(std::string_view line) {
  if (line.empty()) return;
  if (options_.on_line) {
    std::string reason = options_.on_line(line);
    if (!reason.empty()) last_line_ = std::move(reason);
    return;
  }
  const std::string clean = utf8::sanitized(line);
  const std::string text = options_.name + ": " + clean;
  if (line.starts_with("billow: info:") || line.starts_with("billow: debug:"))
    return log::info(text);
  log::warn(text);
  // how_it_ended() omits the prefixes that every log line has.
  last_line_ = clean;
  for (const std::string_view prefix : {"billow: ", "error: ", "warning: "})
    if (last_line_.starts_with(prefix)) last_line_.erase(0, prefix.size());
}

void ChildProcess::reap() {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) != 0 &&
         errno == EINTR) {
  }
  std::string how = description(info);
  if (info.si_code == CLD_EXITED && info.si_status != 0 && !last_line_.empty())
    how += ": " + last_line_;
  {
    const std::scoped_lock lock(mutex_);
    ::waitpid(pid_, nullptr, 0);
    how_it_ended_ = std::move(how);
  }
  if (options_.on_end) options_.on_end();
  const std::scoped_lock lock(mutex_);
  has_ended_ = true;
  ended_.notify_all();
}

}  // namespace billow::process
