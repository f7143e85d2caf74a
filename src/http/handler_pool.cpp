#include "http/handler_pool.h"

#include <system_error>
#include <utility>

namespace billow::http {

HandlerPool::~HandlerPool() { join(); }

bool HandlerPool::start_thread() {
  const auto self = threads_.emplace(threads_.end());
  try {
    *self = std::thread([this, self] { serve(self); });
  } catch (const std::system_error&) {
    threads_.erase(self);
    return false;
  }
  return true;
}

bool HandlerPool::run(std::function<void()> work) {
  Threads ended;
  {
    const std::lock_guard lock(mutex_);
    if (joining_) return false;
    // Without a thread for it, it would wait behind work that may take minutes.
    if (n_idle_ <= work_.size() && !start_thread()) return false;
    work_.push_back(std::move(work));
    ended.swap(ended_);
  }
  has_work_.notify_one();
  for (std::thread& thread : ended) thread.join();
  return true;
}

void HandlerPool::serve(Threads::iterator self) {
  std::unique_lock lock(mutex_);
  ++n_idle_;
  for (;;) {
    has_work_.wait_for(lock, idle_time_, [&] { return !work_.empty() || joining_; });
    if (work_.empty()) break;
    std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    --n_idle_;
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
    ++n_idle_;
  }
  --n_idle_;
  ended_.splice(ended_.end(), threads_, self);
  has_ended_.notify_all();
}

void HandlerPool::join() {
  Threads ended;
  {
    std::unique_lock lock(mutex_);
    joining_ = true;
    has_work_.notify_all();
    has_ended_.wait(lock, [&] { return threads_.empty(); });
    ended.swap(ended_);
  }
  for (std::thread& thread : ended) thread.join();
}

size_t HandlerPool::n_threads() const {
  const std::lock_guard lock(mutex_);
  return threads_.size();
}

}  // namespace billow::http
