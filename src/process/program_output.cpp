#include "process/program_output.h"

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
#include "process/spawn.h"

namespace billow::process {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr size_t kMaxBytes = size_t{1} << 20;

struct Descriptor {
  int fd;
  explicit Descriptor(int opened) : fd(opened) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }
  void close() {
    if (fd >= 0) ::close(std::exchange(fd, -1));
  }
};

// A program while it runs. It is killed, if it still runs, and reaped at the end.
class Running {
 public:
  Running(const std::string& program, const std::vector<std::string>& arguments,
          const ProgramLimits& limits)
      : program_(program), limits_(limits), until_(SteadyClock::now() + limits.time) {
    std::vector<std::string> command = {program};
    command.insert(command.end(), arguments.begin(), arguments.end());
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
      throw system_error("cannot make a pipe for", program, errno);
    output_.fd = ends[0];
    Descriptor input(ends[1]);
    stopped_.fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (stopped_.fd < 0) throw system_error("cannot make an event for", program, errno);
    pid_ = spawn(std::move(command), {.output = input.fd, .error = STDERR_FILENO});
    process_.fd = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
    if (process_.fd < 0) {
      const int error = errno;
      kill_and_reap();
      throw system_error("cannot watch", program, error);
    }
  }
  ~Running() {
    if (pid_ > 0) kill_and_reap();
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  std::string output() {
    const std::stop_callback wake(limits_.stop, [this] {
      const uint64_t one = 1;
      static_cast<void>(::write(stopped_.fd, &one, sizeof one));
    });
    std::string text;
    std::array<char, 4096> buffer{};
    for (;;) {
      wait_for(output_.fd);
      const ssize_t n = ::read(output_.fd, buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      if (text.size() < kMaxBytes) text.append(buffer.data(), static_cast<size_t>(n));
    }
    wait_for(process_.fd);  // it has closed its output, and need not have ended
    const int status = reap();
    if (WIFSIGNALED(status)) {
      throw Error(ErrorCode::kIo,
                  program_ + " was ended by signal " + std::to_string(WTERMSIG(status)));
    }
    return text;
  }

 private:
  // Returns when there is something to be had there. Throws Error when the program has to end
  // first.
  void wait_for(int fd) const {
    for (;;) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(until_ - SteadyClock::now()).count();
      if (limits_.stop.stop_requested())
        throw Error(ErrorCode::kIo, program_ + " was stopped: nobody waits for it any more");
      if (left <= 0) {
        throw Error(ErrorCode::kIo, program_ + " did not end within " +
                                        std::to_string(limits_.time.count() / 1000) + " s");
      }
      std::array<pollfd, 2> fds{pollfd{fd, POLLIN, 0}, pollfd{stopped_.fd, POLLIN, 0}};
      const auto patience = std::min<int64_t>(left, std::numeric_limits<int>::max());
      if (::poll(fds.data(), fds.size(), static_cast<int>(patience)) > 0 && fds[0].revents != 0)
        return;
    }
  }

  int reap() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }

  void kill_and_reap() {
    ::kill(-pid_, SIGKILL);  // its whole group
    reap();
  }

  const std::string& program_;
  const ProgramLimits& limits_;
  const SteadyClock::time_point until_;
  pid_t pid_ = -1;
  Descriptor output_{-1};
  Descriptor stopped_{-1};
  Descriptor process_{-1};
};

}  // namespace

std::string program_output(const std::string& program, const std::vector<std::string>& arguments,
                           const ProgramLimits& limits) {
  return Running(program, arguments, limits).output();
}

}  // namespace billow::process
