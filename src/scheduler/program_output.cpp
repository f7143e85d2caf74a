#include "scheduler/program_output.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "base/error.h"

extern char** environ;

namespace billow::scheduler {
namespace {

constexpr size_t kMostBytes = size_t{1} << 20;

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    if (text.size() < kMostBytes) text.append(buffer.data(), static_cast<size_t>(n));
  }
}

// The signals that this thread may have blocked are the program's own affair again.
void reset_signals(posix_spawnattr_t& attributes) {
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
}

}  // namespace

std::string program_output(const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw system_error("cannot make a pipe for", program, errno);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawnattr_init(&attributes);
  reset_signals(attributes);
  pid_t pid = 0;
  const int failed =
      ::posix_spawn(&pid, program.c_str(), &actions, &attributes, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  ::close(ends[1]);
  if (failed != 0) {
    ::close(ends[0]);
    throw system_error("cannot run", program, failed);
  }
  const std::string text = read_all(ends[0]);
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    throw Error(ErrorCode::kIo,
                program + " was ended by signal " + std::to_string(WTERMSIG(status)));
  }
  return text;
}

}  // namespace billow::scheduler
