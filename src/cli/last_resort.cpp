#include "cli/last_resort.h"

#include <cstdlib>

#include "base/log.h"

namespace billow::cli {

LastResort::~LastResort() {
  {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
}

void LastResort::arm(std::chrono::milliseconds left) {
  {
    const std::scoped_lock lock(mutex_);
    until_ = std::chrono::steady_clock::now() + left;
  }
  changed_.notify_all();
  if (!watch_.joinable()) watch_ = std::jthread([this] { watch(); });
}

void LastResort::watch() {
  std::unique_lock lock(mutex_);
  while (!ended_) {
    if (std::chrono::steady_clock::now() >= until_) {
      log::warn(
          "some threads wait for a file system that does not answer: the process ends without "
          "them");
      std::_Exit(1);
    }
    changed_.wait_until(lock, until_);
  }
}

}  // namespace billow::cli
