// Runners for real: each a process of this program. Whoever makes them owns a folder for their
// sockets and a thread that starts them; it must outlive them. Any thread may call.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "scheduler/runner.h"
#include "scheduler/runner_folder.h"

namespace billow::scheduler {

struct RunnerProgram {
  std::string program = "/proc/self/exe";
  std::vector<std::string> arguments{};  // beside those of a Launch: --threads, --kv-type, ...
  std::string folder{};                  // in which a private one is made; empty: see RunnerFolder
  std::chrono::milliseconds timeout{2000};           // when it is asked to end, before it is killed
  std::chrono::milliseconds answer_timeout{10'000};  // of its health and its budget
};

class RunnerProcesses {
 public:
  explicit RunnerProcesses(RunnerProgram program);  // throws Error
  ~RunnerProcesses();
  RunnerProcesses(const RunnerProcesses&) = delete;
  RunnerProcesses& operator=(const RunnerProcesses&) = delete;

  // Throws Error where the process cannot be started.
  std::unique_ptr<Runner> start(const Launch& launch);
  StartRunner starter();  // start(), for a Scheduler

 private:
  void run();

  const RunnerProgram program_;
  RunnerFolder folder_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<std::unique_ptr<Runner>()>> queue_;
  uint64_t n_started_ = 0;
  bool is_closing_ = false;
  // A runner ends when the thread that started it does, so one does it that stays.
  std::thread spawner_;
};

}  // namespace billow::scheduler
