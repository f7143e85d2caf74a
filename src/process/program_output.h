// Runs a short program to its end and returns its output.
#pragma once

#include <chrono>
#include <stop_token>
#include <string>
#include <vector>

namespace billow::process {

struct ProgramLimits {
  std::chrono::milliseconds time = std::chrono::seconds(60);  // from start to end
  std::stop_token stop{};                                     // kills the program immediately
};

// Returns at most the first 1 MiB of the program's standard output, whatever the exit status.
// The program shares the standard error of this process. Throws Error if the program cannot start,
// a signal ends it, it times out, or `stop` is requested. Thread-safe.
std::string program_output(const std::string& program, const std::vector<std::string>& arguments,
                           const ProgramLimits& limits = {});

}  // namespace billow::process
