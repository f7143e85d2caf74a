// Threads for work that blocks: one more is started whenever all are busy, and one that had nothing
// to do for a while ends. How many there can be is up to those who give the work. Any thread may
// call run().
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace billow::http {

class HandlerPool {
 public:
  explicit HandlerPool(std::chrono::milliseconds idle_time) : idle_time_(idle_time) {}
  ~HandlerPool();  // join()
  HandlerPool(const HandlerPool&) = delete;
  HandlerPool& operator=(const HandlerPool&) = delete;

  // Calls `work`, which must not throw, on a thread of the pool. False: no thread could be had, or
  // the pool has been joined; `work` is not called.
  [[nodiscard]] bool run(std::function<void()> work);

  // Waits until all work is done and all threads have ended.
  void join();

  size_t n_threads() const;

 private:
  using Threads = std::list<std::thread>;
  void serve(Threads::iterator self);
  bool start_thread();

  const std::chrono::milliseconds idle_time_;
  mutable std::mutex mutex_;
  std::condition_variable has_work_;
  std::condition_variable has_ended_;
  std::list<std::function<void()>> work_;
  Threads threads_;
  Threads ended_;  // threads that are about to end or have ended, not joined yet
  size_t n_idle_ = 0;
  bool joining_ = false;
};

}  // namespace billow::http
