// Real runners: each is a process of this program. RunnerProcesses owns the folder for their
// sockets and the thread that starts them. It must outlive the runners. Thread-safe.
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
  std::vector<std::string>
      arguments{};       // in addition to those of a Launch: --threads, --kv-type, ...
  std::string folder{};  // parent of the private folder; empty: see RunnerFolder
  std::chrono::milliseconds timeout{2000};           // from the request to exit until the kill
  std::chrono::milliseconds answer_timeout{10'000};  // of health and budget requests
};

class RunnerProcesses {
 public:
  explicit RunnerProcesses(RunnerProgram program);  // throws Error
  ~RunnerProcesses();
  RunnerProcesses(const RunnerProcesses&) = delete;
  RunnerProcesses& operator=(const RunnerProcesses&) = delete;

  // Throws Error if the process cannot be started. Makes a new folder if somebody else has removed
  // the folder. A runner whose folder or socket was removed reports that it has failed.
  std::unique_ptr<Runner> start(const Launch& launch);
  StartRunner starter();  // start(), for a Scheduler

 private:
  void run();

  const RunnerProgram program_;
  std::unique_ptr<RunnerFolder> folder_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<std::unique_ptr<Runner>()>> queue_;
  uint64_t n_started_ = 0;
  bool is_closing_ = false;
  // A runner ends with the thread that started it, so that this permanent thread starts all
  // runners.
  std::thread spawner_;
};

}  // namespace billow::scheduler
