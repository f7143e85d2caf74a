// A thread that calculates which tokens may come next, in parallel with the evaluation of the
// model. The thread starts with its first task. One thread at a time may call this object.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "constraint/guide.h"

namespace billow::engine {

class MaskWorker {
 public:
  MaskWorker() = default;
  ~MaskWorker();
  MaskWorker(const MaskWorker&) = delete;
  MaskWorker& operator=(const MaskWorker&) = delete;

  // Running work. The destructor waits until all guides are prepared.
  class Task {
   public:
    explicit Task(MaskWorker& worker) : worker_(worker) {}
    ~Task() { worker_.wait(); }
    Task(const Task&) = delete;
    Task& operator=(const Task&) = delete;

   private:
    MaskWorker& worker_;
  };
  // Prepares the guides in the background. No other thread may use them until the task is
  // destroyed. REQUIRES: no other task.
  [[nodiscard]] Task prepare(std::vector<constraint::Guide*> guides);

 private:
  void run();
  void wait();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<constraint::Guide*> guides_;  // still to be prepared
  bool busy_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace billow::engine
