#include "scheduler/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
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

namespace billow::scheduler {
namespace {

constexpr size_t kMostLineBytes = 4096;

// What posix_spawn() is told. The object owns it.
class Spawning {
 public:
  explicit Spawning(const std::string& path) : path_(path) {
    check(::posix_spawn_file_actions_init(&files_));
    if (const int error = ::posix_spawnattr_init(&attributes_); error != 0) {
      ::posix_spawn_file_actions_destroy(&files_);
      check(error);
    }
  }
  ~Spawning() {
    ::posix_spawn_file_actions_destroy(&files_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  Spawning(const Spawning&) = delete;
  Spawning& operator=(const Spawning&) = delete;

  void set_files(int log) {
    check(::posix_spawn_file_actions_addopen(&files_, STDIN_FILENO, "/dev/null", O_RDONLY, 0));
    check(::posix_spawn_file_actions_addopen(&files_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0));
    check(::posix_spawn_file_actions_adddup2(&files_, log, STDERR_FILENO));
    check(::posix_spawn_file_actions_addclosefrom_np(&files_, STDERR_FILENO + 1));
  }

  void set_signals() {
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    check(::posix_spawnattr_setsigmask(&attributes_, &none));
    check(::posix_spawnattr_setsigdefault(&attributes_, &all));
    // A group of its own: what a terminal sends to all (Ctrl+C) is the server's to deal with.
    check(::posix_spawnattr_setpgroup(&attributes_, 0));
    check(::posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP));
  }

  pid_t run(std::vector<std::string> command) {
    std::vector<char*> arguments;
    for (std::string& argument : command) arguments.push_back(argument.data());
    arguments.push_back(nullptr);
    pid_t pid = -1;
    check(::posix_spawn(&pid, path_.c_str(), &files_, &attributes_, arguments.data(), ::environ));
    return pid;
  }

 private:
  void check(int error_number) const {
    if (error_number != 0) throw system_error("cannot start", path_, error_number);
  }

  const std::string path_;
  posix_spawn_file_actions_t files_{};
  posix_spawnattr_t attributes_{};
};

pid_t spawn(const std::vector<std::string>& command, int log) {
  Spawning spawning(command.front());
  spawning.set_files(log);
  spawning.set_signals();
  return spawning.run(command);
}

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
    pid_ = spawn(options_.command, ends[1]);
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

// Until it is reaped, its number is nobody else's.
void ChildProcess::send(int signal) const {
  if (how_it_ended_.empty()) ::kill(pid_, signal);
}

void ChildProcess::end(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  const auto has_ended = [this] { return !how_it_ended_.empty(); };
  if (patience > std::chrono::milliseconds(0)) {
    send(SIGTERM);
    ended_.wait_for(lock, patience, has_ended);
  }
  send(SIGKILL);
  ended_.wait(lock, has_ended);
}

// Its log ends when it does: nobody else has the other end of the pipe.
void ChildProcess::watch() {
  http::LineSplitter lines(kMostLineBytes);
  const auto on_line = [this](std::string_view line) { forward(line); };
  std::array<char, kMostLineBytes> buffer{};
  for (;;) {
    const ssize_t n = ::read(log_, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    try {
      lines.feed({buffer.data(), static_cast<size_t>(n)}, on_line);
    } catch (const Error&) {  // a line that is too long: on with what comes behind it
      lines = http::LineSplitter(kMostLineBytes);
    }
  }
  lines.finish(on_line);
  ::close(log_);
  reap();
}

void ChildProcess::forward(std::string_view line) {
  if (line.empty()) return;
  last_line_ = utf8::sanitized(line);
  const std::string text = options_.name + ": " + last_line_;
  const bool is_less = line.starts_with("billow: info:") || line.starts_with("billow: debug:");
  is_less ? log::info(text) : log::warn(text);
  // As an error's text it stands without the words that are in front of every line.
  for (const std::string_view prefix : {"billow: ", "error: ", "warning: ", "info: "})
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
  if (options_.on_end) options_.on_end();
  const std::scoped_lock lock(mutex_);
  ::waitpid(pid_, nullptr, 0);
  how_it_ended_ = std::move(how);
  ended_.notify_all();
}

}  // namespace billow::scheduler
