#include "process/program_output.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "process/run_program.h"

namespace billow::process {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;

}  // namespace

std::string program_output(const std::string& program, const std::vector<std::string>& arguments,
                           const ProgramLimits& limits) {
  std::string text;
  RunOptions options;
  options.command = {program};
  options.command.insert(options.command.end(), arguments.begin(), arguments.end());
  options.on_output = [&](std::span<const std::byte> bytes) {
    const size_t n = std::min(bytes.size(), kMaxBytes - text.size());
    text.append(reinterpret_cast<const char*>(bytes.data()), n);
  };
  options.time = limits.time;
  options.stop = limits.stop;
  run_program(options);
  return text;
}

}  // namespace billow::process
