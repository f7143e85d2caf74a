#include "cpu/thread_team.h"

#include <immintrin.h>

#include <chrono>

#include "base/check.h"

namespace billow::cpu {
namespace {

// Longer than the gaps between the regions of a forward pass, far shorter than anybody would notice
// as load.
constexpr std::chrono::microseconds kSpin{50};

// Waits until `value` differs from `old`: spins first, then sleeps in the kernel.
template <class T>
void wait_while_equal(const std::atomic<T>& value, T old) {
  const auto deadline = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (value.load(std::memory_order_acquire) != old) return;
      _mm_pause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadTeam::ThreadTeam(int n_threads) {
  BILLOW_CHECK(n_threads >= 1);
  workers_.reserve(static_cast<size_t>(n_threads - 1));
  for (int member = 1; member < n_threads; ++member) {
    workers_.emplace_back([this, member] { serve(member); });
  }
}

ThreadTeam::~ThreadTeam() {
  stopping_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadTeam::run_region(Region region) {
  if (!workers_.empty()) {
    region_ = region;
    n_busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
  }
  region.call(region.context, 0);
  for (int busy = n_busy_.load(std::memory_order_acquire); busy != 0;
       busy = n_busy_.load(std::memory_order_acquire)) {
    wait_while_equal(n_busy_, busy);
  }
}

void ThreadTeam::serve(int member) {
  unsigned seen = 0;
  for (;;) {
    wait_while_equal(generation_, seen);
    ++seen;
    if (stopping_.load(std::memory_order_relaxed)) return;
    region_.call(region_.context, member);
    n_busy_.fetch_sub(1, std::memory_order_release);
    n_busy_.notify_one();
  }
}

}  // namespace billow::cpu
