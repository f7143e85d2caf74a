// Runs a program to its end and passes on its output while it runs.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace billow::process {

struct RunOptions {
  std::vector<std::string> command;  // a path and its arguments
  // Receives the bytes of standard output. The program waits while this function runs.
  std::function<void(std::span<const std::byte> bytes)> on_output{};
  // Receives each line of standard error. If empty, the program shares the standard error of this
  // process. Lines of more than 64 KiB are dropped.
  std::function<void(std::string_view line)> on_line{};
  // The max time from start to end; nullopt: no limit.
  std::optional<std::chrono::milliseconds> time{};
  std::stop_token stop{};  // kills the program immediately
};

// Returns the exit status. Both functions run on the caller's thread. If a function throws, the
// program is killed and the exception passes on to the caller. Throws Error (kIo) if the program
// cannot start, a signal ends it, it times out, or `stop` is requested. The code is kOutOfMemory
// for SIGKILL, which is how the system ends a program when memory is short. When run_program()
// returns or throws, the program has ended. A kill ends the whole process group of the program.
// Thread-safe.
int run_program(const RunOptions& options);

}  // namespace billow::process
