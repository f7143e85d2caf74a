// A thread that finds out which tokens may come next, while the others evaluate the model. It
// starts with its first work. One thread at a time calls it.
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

  // Work under way: its end waits until all of the guides are prepared.
  class Task {
   public:
    explicit Task(MaskWorker& worker) : worker_(worker) {}
    ~Task() { worker_.wait(); }
    Task(const Task&) = delete;
    Task& operator=(const Task&) = delete;

   private:
    MaskWorker& worker_;
  };
  // Prepares the guides, which nobody else touches until the task has ended. REQUIRES: no other
  // task.
  [[nodiscard]] Task prepare(std::vector<constraint::Guide*> guides);

 private:
  void run();
  void wait();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<constraint::Guide*> guides_;  // to be prepared
  bool busy_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace billow::engine
