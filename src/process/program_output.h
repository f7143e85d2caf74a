// What a program prints: run to its end, for short questions.
#pragma once

#include <chrono>
#include <stop_token>
#include <string>
#include <vector>

namespace billow::process {

struct ProgramLimits {
  std::chrono::milliseconds time = std::chrono::seconds(60);  // from its start to its end
  std::stop_token stop{};                                     // ends it at once
};

// All that it wrote to standard output, at most 1 MiB, whatever its exit status. Its standard error
// is ours. Throws Error where it cannot be run, is ended by a signal, or is killed because its time
// is over or `stop` is requested. Any thread.
std::string program_output(const std::string& program, const std::vector<std::string>& arguments,
                           const ProgramLimits& limits = {});

}  // namespace billow::process
