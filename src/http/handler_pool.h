// Threads for work that blocks: one more is started whenever all are busy, and one that had nothing
// to do for a while ends. How many there can be is up to those who give the work. Any thread may
// call run() of a pool without turns.
//
// A pool can have turns, too: short steps that one of its threads takes at a time, one after the
// other, for ever. A server's turns are its I/O. Work that is given in a turn is done by the thread
// that took the turn, which leaves the next turn to another thread. So a request runs on the thread
// that has read it, while that thread's caches hold the request, and does not wait for another
// thread to wake up.
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
  // `turn` takes one step and returns whether there is another; it must not throw.
  explicit HandlerPool(std::chrono::milliseconds idle_time, std::function<bool()> turn = {})
      : idle_time_(idle_time), turn_(std::move(turn)), has_turns_(turn_ != nullptr) {}
  ~HandlerPool();  // join()
  HandlerPool(const HandlerPool&) = delete;
  HandlerPool& operator=(const HandlerPool&) = delete;

  // Takes turns from here on. False: no thread could be had.
  // REQUIRES: the pool has turns.
  [[nodiscard]] bool start();

  // Calls `work`, which must not throw, on a thread of the pool. False: no thread could be had, or
  // the pool takes no more work; `work` is not called.
  // REQUIRES: the pool has no turns, or this is called in a turn.
  [[nodiscard]] bool run(std::function<void()> work);

  // Takes no more work, and waits until all work is done. Turns go on.
  void finish_work();

  // finish_work(), and waits until the last turn was taken and all threads have ended.
  void join();

  size_t n_threads() const;

 private:
  using Threads = std::list<std::thread>;
  using Lock = std::unique_lock<std::mutex>;
  void serve(Threads::iterator self);
  void do_work(Lock& lock);
  void take_turn(Lock& lock);
  bool wait_for_news(Lock& lock);
  bool start_thread();

  const std::chrono::milliseconds idle_time_;
  const std::function<bool()> turn_;
  mutable std::mutex mutex_;
  std::condition_variable has_news_;   // work, or a turn that nobody takes
  std::condition_variable has_ended_;  // work or a thread
  std::list<std::function<void()>> work_;
  std::list<std::function<void()>> turn_work_;  // given in the turn that is being taken
  size_t n_news_ = 0;                           // idle threads that do_work() is to notify
  Threads threads_;
  Threads ended_;  // threads that are about to end or have ended, not joined yet
  size_t n_idle_ = 0;
  size_t n_working_ = 0;
  bool has_turns_ = false;       // false again behind the last one
  std::thread::id turn_thread_;  // takes the turn; none: the turn is free
  bool finishing_ = false;
};

}  // namespace billow::http
