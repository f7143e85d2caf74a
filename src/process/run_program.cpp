#include "process/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <limits>
#include <utility>

#include "base/error.h"
#include "http/lines.h"
#include "process/spawn.h"

namespace billow::process {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr size_t kBufferBytes = size_t{256} << 10;
constexpr size_t kMaxLineBytes = size_t{64} << 10;

struct Descriptor {
  int fd = -1;
  Descriptor() = default;
  explicit Descriptor(int opened) : fd(opened) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }
  void close() {
    if (fd >= 0) ::close(std::exchange(fd, -1));
  }
};

// A program while it runs. The destructor kills and reaps a program that still runs.
class Running {
 public:
  explicit Running(const RunOptions& options)
      : options_(options),
        until_(options.time ? SteadyClock::now() + *options.time : SteadyClock::time_point::max()) {
    Descriptor output;
    Descriptor error;
    make_pipe(output_, output);
    if (options.on_line) make_pipe(error_, error);
    stopped_.fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (stopped_.fd < 0) throw system_error("cannot make an event for", program(), errno);
    pid_ = spawn(options.command,
                 {.output = output.fd, .error = options.on_line ? error.fd : STDERR_FILENO});
    process_.fd = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
    if (process_.fd < 0) {
      const int reason = errno;
      kill_and_reap();
      throw system_error("cannot watch", program(), reason);
    }
  }
  ~Running() {
    if (pid_ > 0) kill_and_reap();
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  int finish() {
    const std::stop_callback wake(options_.stop, [this] {
      const uint64_t one = 1;
      static_cast<void>(::write(stopped_.fd, &one, sizeof one));
    });
    std::vector<std::byte> buffer(kBufferBytes);
    using Lines = http::LineSplitter;
    Lines lines(kMaxLineBytes, Lines::Ends::kNewline, Lines::LongLines::kAreDropped);
    while (output_.fd >= 0 || error_.fd >= 0) {
      std::array<pollfd, 3> fds{pollfd{output_.fd, POLLIN, 0}, pollfd{error_.fd, POLLIN, 0},
                                pollfd{stopped_.fd, POLLIN, 0}};
      wait_for(fds);
      if (fds[0].revents != 0)
        read(output_, buffer, [&](std::span<const std::byte> bytes) {
          if (options_.on_output) options_.on_output(bytes);
        });
      if (fds[1].revents != 0)
        read(error_, buffer, [&](std::span<const std::byte> bytes) {
          lines.feed({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, options_.on_line);
        });
    }
    if (options_.on_line) lines.finish(options_.on_line);
    // The program has closed its output but may still run.
    std::array<pollfd, 3> fds{pollfd{process_.fd, POLLIN, 0}, pollfd{-1, 0, 0},
                              pollfd{stopped_.fd, POLLIN, 0}};
    wait_for(fds);
    const int status = reap();
    if (WIFSIGNALED(status)) {
      const int number = WTERMSIG(status);
      const bool is_kill = number == SIGKILL;
      throw Error(is_kill ? ErrorCode::kOutOfMemory : ErrorCode::kIo,
                  program() + " was ended by signal " + std::to_string(number) +
                      (is_kill ? ": the system may be short of memory" : ""));
    }
    return WEXITSTATUS(status);
  }

 private:
  const std::string& program() const { return options_.command.front(); }

  void make_pipe(Descriptor& from, Descriptor& to) const {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
      throw system_error("cannot make a pipe for", program(), errno);
    from.fd = ends[0];
    to.fd = ends[1];
  }

  // Returns when one of the first two is ready. Throws Error if the program must be killed first.
  void wait_for(std::array<pollfd, 3>& fds) const {
    for (;;) {
      if (options_.stop.stop_requested())
        throw Error(ErrorCode::kIo, program() + " was stopped because its caller no longer waits");
      int64_t left = std::numeric_limits<int>::max();
      if (options_.time) {
        left = std::chrono::ceil<std::chrono::milliseconds>(until_ - SteadyClock::now()).count();
        if (left <= 0) {
          const int64_t ms = options_.time->count();
          throw Error(ErrorCode::kIo, program() + " did not end within " +
                                          (ms < 1000 ? std::to_string(ms) + " ms"
                                                     : std::to_string(ms / 1000) + " s"));
        }
      }
      const auto timeout = std::min<int64_t>(left, std::numeric_limits<int>::max());
      const int n = ::poll(fds.data(), fds.size(), static_cast<int>(timeout));
      if (n > 0 && (fds[0].revents != 0 || fds[1].revents != 0)) return;
    }
  }

  template <typename Take>
  void read(Descriptor& from, std::vector<std::byte>& buffer, const Take& take) {
    const ssize_t n = ::read(from.fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) return;
    if (n <= 0) return from.close();
    take(std::span<const std::byte>(buffer).first(static_cast<size_t>(n)));
  }

  int reap() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }

  void kill_and_reap() {
    ::kill(-pid_, SIGKILL);  // its whole process group
    reap();
  }

  const RunOptions& options_;
  const SteadyClock::time_point until_;
  pid_t pid_ = -1;
  Descriptor output_;
  Descriptor error_;
  Descriptor stopped_;
  Descriptor process_;
};

}  // namespace

int run_program(const RunOptions& options) { return Running(options).finish(); }

}  // namespace billow::process
