#include "process/spawn.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <csignal>

#include "base/error.h"
#include "process/environment.h"

namespace billow::process {
namespace {

// Owns the file actions and attributes for posix_spawn().
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

  void set_files(const SpawnFiles& files) {
    check(::posix_spawn_file_actions_addopen(&files_, STDIN_FILENO, "/dev/null", O_RDONLY, 0));
    set_file(STDOUT_FILENO, files.output);
    set_file(STDERR_FILENO, files.error);
    check(::posix_spawn_file_actions_addclosefrom_np(&files_, STDERR_FILENO + 1));
  }

  void set_signals() {
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    check(::posix_spawnattr_setsigmask(&attributes_, &none));
    check(::posix_spawnattr_setsigdefault(&attributes_, &all));
    // With its own process group, the program gets no signals from the terminal (Ctrl+C). The
    // server handles such signals.
    check(::posix_spawnattr_setpgroup(&attributes_, 0));
    check(::posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP));
  }

  pid_t run(std::vector<std::string>& command) {
    std::vector<char*> arguments;
    for (std::string& argument : command) arguments.push_back(argument.data());
    arguments.push_back(nullptr);
    pid_t pid = -1;
    check(
        ::posix_spawn(&pid, path_.c_str(), &files_, &attributes_, arguments.data(), environment()));
    return pid;
  }

 private:
  void set_file(int number, int from) {
    check(from < 0 ? ::posix_spawn_file_actions_addopen(&files_, number, "/dev/null", O_WRONLY, 0)
                   : ::posix_spawn_file_actions_adddup2(&files_, from, number));
  }
  void check(int error_number) const {
    if (error_number != 0) throw system_error("cannot start", path_, error_number);
  }

  const std::string path_;
  posix_spawn_file_actions_t files_{};
  posix_spawnattr_t attributes_{};
};

}  // namespace

pid_t spawn(std::vector<std::string> command, const SpawnFiles& files) {
  Spawning spawning(command.front());
  spawning.set_files(files);
  spawning.set_signals();
  return spawning.run(command);
}

}  // namespace billow::process
