// Limits the tokens of all passes in flight. Reserves atomically, so that two threads never take
// the same free tokens. Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace billow::engine {

class EmbedRoom {
 public:
  explicit EmbedRoom(size_t max) noexcept : max_(max) {}

  // Reserves n tokens. Returns false and changes nothing if fewer are free.
  [[nodiscard]] bool reserve(size_t n) noexcept {
    size_t used = used_.load();
    do {
      const size_t max = max_.load();
      if (n > max - std::min(max, used)) return false;
    } while (!used_.compare_exchange_weak(used, used + n));
    return true;
  }
  void release(size_t n) noexcept { used_.fetch_sub(n); }
  // Reserved tokens stay reserved, even above the new max.
  void set_max(size_t max) noexcept { max_.store(max); }
  size_t used() const noexcept { return used_.load(); }

 private:
  std::atomic<size_t> max_;
  std::atomic<size_t> used_{0};
};

}  // namespace billow::engine
