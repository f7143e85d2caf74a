// Runs a program to its end, and hands over what the program writes while it runs.
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
  // Takes the bytes of standard output. The program waits while this function runs.
  std::function<void(std::span<const std::byte> bytes)> on_output{};
  // Takes each line of standard error. Empty: the program has our standard error. Lines of more
  // than 64 KiB are dropped.
  std::function<void(std::string_view line)> on_line{};
  // From the start of the program to its end; nullopt: any time.
  std::optional<std::chrono::milliseconds> time{};
  std::stop_token stop{};  // kills the program at once
};

// Returns the exit status. Both functions run on the thread of the caller. Whatever they throw ends
// the program and is thrown here. Throws Error (kIo) where the program cannot be started, is ended
// by a signal, or is killed because its time is over or `stop` is requested. The program, with all
// that it has started, has ended when this returns. Any thread.
int run_program(const RunOptions& options);

}  // namespace billow::process
