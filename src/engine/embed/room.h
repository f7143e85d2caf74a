// The tokens of all passes in flight against one ceiling: reserved in one step, so that no two who
// look at the same room both take it. Any number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace billow::engine {

class EmbedRoom {
 public:
  explicit EmbedRoom(size_t max) noexcept : max_(max) {}

  // False, and nothing has changed, where there is no room for n more.
  [[nodiscard]] bool reserve(size_t n) noexcept {
    size_t used = used_.load();
    do {
      const size_t max = max_.load();
      if (n > max - std::min(max, used)) return false;
    } while (!used_.compare_exchange_weak(used, used + n));
    return true;
  }
  void release(size_t n) noexcept { used_.fetch_sub(n); }
  // What is reserved stays so, be it more.
  void set_max(size_t max) noexcept { max_.store(max); }
  size_t used() const noexcept { return used_.load(); }

 private:
  std::atomic<size_t> max_;
  std::atomic<size_t> used_{0};
};

}  // namespace billow::engine
