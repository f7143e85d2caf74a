// What a program prints: run to its end, for short questions.
#pragma once

#include <string>
#include <vector>

namespace billow::scheduler {

// All that it wrote to standard output, at most 1 MiB, whatever its exit status. Its standard error
// is ours. Throws Error where it cannot be run or is ended by a signal. Any thread.
std::string program_output(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace billow::scheduler
