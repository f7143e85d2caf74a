// A thread pool for blocking work. If all threads are busy, the pool starts another thread. A
// thread that is idle for a while ends. The pool has no limit: callers limit how much work they
// submit. In a pool without turns, run() is thread-safe.
//
// A pool can also have turns: short steps that repeat until the pool ends, one thread at a time.
// The turns of a server are its I/O. If a turn submits work, the thread of that turn does the work
// and another thread takes the next turn. So a request runs on the thread that has read it. That
// thread's CPU caches hold the request, and the request does not wait for another thread to wake
// up.
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
  // `turn` does one step and returns whether another step follows. It must not throw.
  explicit HandlerPool(std::chrono::milliseconds idle_time, std::function<bool()> turn = {})
      : idle_time_(idle_time), turn_(std::move(turn)), has_turns_(turn_ != nullptr) {}
  ~HandlerPool();  // join()
  HandlerPool(const HandlerPool&) = delete;
  HandlerPool& operator=(const HandlerPool&) = delete;

  // Starts the turns. Returns false if no thread can be started.
  // REQUIRES: the pool has turns.
  [[nodiscard]] bool start();

  // Calls `work`, which must not throw, on a thread of the pool. If no thread can be started or the
  // pool accepts no more work, returns false and does not call `work`.
  // REQUIRES: the pool has no turns, or this function is called in a turn.
  [[nodiscard]] bool run(std::function<void()> work);

  // Accepts no more work and waits until all work is done. Turns continue.
  void finish_work();

  // Calls finish_work(), then waits until the last turn is done and all threads have ended.
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
  std::condition_variable has_news_;   // signals new work, or a turn that no thread takes
  std::condition_variable has_ended_;  // signals the end of work or of a thread
  std::list<std::function<void()>> work_;
  std::list<std::function<void()>> turn_work_;  // submitted in the current turn
  size_t n_news_ = 0;                           // number of idle threads that do_work() must notify
  Threads threads_;
  Threads ended_;  // threads that are ending or have ended, not joined yet
  size_t n_idle_ = 0;
  size_t n_working_ = 0;
  bool has_turns_ = false;       // false again after the last turn
  std::thread::id turn_thread_;  // the thread of the current turn; empty: no thread takes turns
  bool finishing_ = false;
};

}  // namespace billow::http
