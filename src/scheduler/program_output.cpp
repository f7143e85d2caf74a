#include "scheduler/program_output.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "scheduler/spawn.h"

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

}  // namespace

std::string program_output(const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw system_error("cannot make a pipe for", program, errno);
  pid_t pid = 0;
  try {
    pid = spawn(std::move(command), {.output = ends[1], .error = STDERR_FILENO});
  } catch (...) {
    ::close(ends[0]);
    ::close(ends[1]);
    throw;
  }
  ::close(ends[1]);
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
