#include "http/handler_pool.h"

#include <system_error>
#include <utility>

#include "base/check.h"

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

bool HandlerPool::start() {
  const std::lock_guard lock(mutex_);
  BILLOW_CHECK(has_turns_);
  return start_thread();
}

// Notifies threads only after the mutex is released. A thread that wakes up earlier would only wait
// for the mutex.
bool HandlerPool::run(std::function<void()> work) {
  Threads ended;
  bool in_turn = false;
  {
    const std::lock_guard lock(mutex_);
    if (finishing_) return false;
    // Work without a free thread would wait for other work, which may take minutes. Within a turn,
    // the next turn needs the extra thread, because this thread will do the work.
    if (n_idle_ <= work_.size() + turn_work_.size() && !start_thread()) return false;
    in_turn = turn_thread_ == std::this_thread::get_id();
    (in_turn ? turn_work_ : work_).push_back(std::move(work));
    ended.swap(ended_);
  }
  if (!in_turn) has_news_.notify_one();
  for (std::thread& thread : ended) thread.join();
  return true;
}

void HandlerPool::do_work(Lock& lock) {
  std::function<void()> work = std::move(work_.front());
  work_.pop_front();
  ++n_working_;
  const size_t n_news = std::exchange(n_news_, 0);
  lock.unlock();
  for (size_t i = 0; i < n_news; ++i) has_news_.notify_one();
  work();
  work = nullptr;
  lock.lock();
  --n_working_;
  if (finishing_) has_ended_.notify_all();
}

void HandlerPool::take_turn(Lock& lock) {
  turn_thread_ = std::this_thread::get_id();
  lock.unlock();
  const bool goes_on = turn_();
  lock.lock();
  turn_thread_ = {};
  if (!goes_on) {
    has_turns_ = false;
    has_news_.notify_all();
  }
  // This thread does the first piece of work. Idle threads do the others and take the next turn.
  n_news_ = turn_work_.size();
  work_.splice(work_.begin(), turn_work_);
}

// Returns false if nothing happened for so long that the thread should end.
bool HandlerPool::wait_for_news(Lock& lock) {
  const auto has_news = [this] {
    const bool turn_is_free = has_turns_ && turn_thread_ == std::thread::id();
    return !work_.empty() || turn_is_free || (finishing_ && !has_turns_);
  };
  ++n_idle_;
  bool found = has_news_.wait_for(lock, idle_time_, has_news);
  // A thread must remain for the next turn: until the last turn, and if the thread of the current
  // turn has work to do. run() has counted this thread.
  while (!found && (finishing_ || !turn_work_.empty()))
    found = has_news_.wait_for(lock, idle_time_, has_news);
  --n_idle_;
  return found;
}

void HandlerPool::serve(Threads::iterator self) {
  Lock lock(mutex_);
  while (wait_for_news(lock)) {
    if (!work_.empty()) {
      do_work(lock);
    } else if (has_turns_) {
      take_turn(lock);
    } else {
      break;
    }
  }
  ended_.splice(ended_.end(), threads_, self);
  has_ended_.notify_all();
}

void HandlerPool::finish_work() {
  Lock lock(mutex_);
  finishing_ = true;
  has_news_.notify_all();
  has_ended_.wait(lock, [&] { return work_.empty() && turn_work_.empty() && n_working_ == 0; });
}

void HandlerPool::join() {
  finish_work();
  Threads ended;
  {
    Lock lock(mutex_);
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
