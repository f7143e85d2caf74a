// hold_runner PROGRAM MODEL FOLDER: starts a runner, prints the runner's process id on standard
// output when the runner is ready, and waits to be killed. A test checks that the runner then ends.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <thread>

#include "scheduler/runner_process.h"

namespace {

using billow::scheduler::Runner;
using billow::scheduler::RunnerProcesses;
using billow::scheduler::RunnerStatus;

void hold(const char* program, const char* model, const char* folder) {
  RunnerProcesses processes({.program = program, .arguments = {}, .folder = folder});
  const std::unique_ptr<Runner> runner = processes.start(
      {.key = model, .name = "held", .weights = model, .budget_bytes = uint64_t{1} << 30});
  while (runner->health().status != RunnerStatus::kReady)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::printf("%d\n", runner->pid());
  std::fflush(stdout);
  for (;;) ::pause();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    hold(argv[1], argv[2], argv[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hold_runner: %s\n", error.what());
    return 1;
  }
}
