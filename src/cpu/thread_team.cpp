#include "cpu/thread_team.h"

#include <immintrin.h>

#include <chrono>

#include "base/check.h"

namespace billow::cpu {
namespace {

// Longer than the gaps between the regions of a forward pass, but too short for a noticeable load.
constexpr std::chrono::microseconds kSpin{50};

}  // namespace

void ThreadTeam::Gate::wait_while(unsigned old) noexcept {
  const auto deadline = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (value() != old) return;
      _mm_pause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  n_asleep_.fetch_add(1);
  while (value_.load() == old) value_.wait(old);
  n_asleep_.fetch_sub(1);
}

ThreadTeam::ThreadTeam(int n_threads) {
  BILLOW_CHECK(n_threads >= 1);
  workers_.reserve(static_cast<size_t>(n_threads - 1));
  for (int member = 1; member < n_threads; ++member) {
    workers_.emplace_back([this, member] { serve(member); });
  }
}

ThreadTeam::~ThreadTeam() {
  stopping_.store(true, std::memory_order_relaxed);
  generation_.add(1);
  for (std::thread& worker : workers_) worker.join();
}

void ThreadTeam::run_region(Region region) {
  if (!workers_.empty()) {
    region_ = region;
    n_busy_.set(static_cast<unsigned>(workers_.size()));
    generation_.add(1);
  }
  region.call(region.context, 0);
  for (unsigned busy = n_busy_.value(); busy != 0; busy = n_busy_.value()) n_busy_.wait_while(busy);
}

void ThreadTeam::serve(int member) {
  unsigned seen = 0;
  for (;;) {
    generation_.wait_while(seen);
    ++seen;
    if (stopping_.load(std::memory_order_relaxed)) return;
    region_.call(region_.context, member);
    n_busy_.add(~0U);  // decrements
  }
}

}  // namespace billow::cpu
