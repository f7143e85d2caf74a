#include "engine/mask_worker.h"

#include <utility>

namespace billow::engine {

MaskWorker::~MaskWorker() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

MaskWorker::Task MaskWorker::prepare(std::vector<constraint::Guide*> guides) {
  if (!guides.empty()) {
    const std::scoped_lock lock(mutex_);
    guides_ = std::move(guides);
    busy_ = true;
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    changed_.notify_all();
  }
  return Task(*this);
}

void MaskWorker::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
}

void MaskWorker::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !guides_.empty(); });
    if (stopping_) return;
    const std::vector<constraint::Guide*> guides = std::exchange(guides_, {});
    lock.unlock();
    for (constraint::Guide* guide : guides) guide->prepare();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace billow::engine
