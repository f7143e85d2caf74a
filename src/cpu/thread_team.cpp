#include "cpu/thread_team.h"

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <system_error>
#include <vector>

#include "base/check.h"
#include "base/error.h"

namespace billow::cpu {
namespace {

// Longer than the gaps between the regions of a forward pass, but too short for a noticeable load.
constexpr std::chrono::microseconds kSpin{50};

// Several times longer than a member that spins needs to see a new region.
constexpr std::chrono::microseconds kPatience{2};

// If the system refuses, the thread runs anywhere.
void bind(std::thread& thread, const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  const auto n = static_cast<size_t>(std::ranges::max(cpus)) + 1;
  std::vector<cpu_set_t> allowed((n + CPU_SETSIZE - 1) / CPU_SETSIZE);
  const size_t n_bytes = allowed.size() * sizeof(cpu_set_t);
  for (const int cpu : cpus) CPU_SET_S(static_cast<size_t>(cpu), n_bytes, allowed.data());
  static_cast<void>(::pthread_setaffinity_np(thread.native_handle(), n_bytes, allowed.data()));
}

}  // namespace

bool ThreadTeam::Gate::spin_while(unsigned old, std::chrono::microseconds max) const noexcept {
  const auto deadline = std::chrono::steady_clock::now() + max;
  do {
    for (int i = 0; i < 32; ++i) {
      if (value() != old) return true;
      _mm_pause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

void ThreadTeam::Gate::wait_while(unsigned old) noexcept {
  if (spin_while(old, kSpin)) return;
  n_asleep_.fetch_add(1);
  while (value_.load() == old) value_.wait(old);
  n_asleep_.fetch_sub(1);
}

// A team of one thread allocates nothing and does not look at the machine. Encoders make such teams
// within a region, whose work must not throw.
ThreadTeam::ThreadTeam(int n_threads)
    : ThreadTeam(n_threads, n_threads > 1 ? place_members(static_cast<size_t>(n_threads))
                                          : std::vector<Place>()) {}

ThreadTeam::ThreadTeam(int n_threads, const std::vector<Place>& places)
    : shares_(n_threads > 1 ? static_cast<size_t>(n_threads) : 0),
      finished_(n_threads > 1 ? static_cast<size_t>(n_threads - 1) : 0),
      claims_(n_threads > 1 ? static_cast<size_t>(n_threads - 1) : 0) {
  BILLOW_CHECK(n_threads >= 1);
  BILLOW_CHECK(places.empty() || places.size() == static_cast<size_t>(n_threads));
  nodes_.reserve(places.size());
  for (const Place& place : places) nodes_.push_back(place.node);
  workers_.reserve(static_cast<size_t>(n_threads - 1));
  try {
    for (int member = 1; member < n_threads; ++member) {
      workers_.emplace_back([this, member] { serve(member); });
      if (!places.empty()) bind(workers_.back(), places[static_cast<size_t>(member)].cpus);
    }
  } catch (const std::system_error& error) {
    stop();
    throw Error(ErrorCode::kOutOfMemory, "cannot start " + std::to_string(n_threads) +
                                             " threads: " + error.code().message() +
                                             "; use fewer threads, or raise the limit");
  }
}

ThreadTeam::~ThreadTeam() { stop(); }

void ThreadTeam::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  generation_.add(1);
  for (std::thread& worker : workers_) worker.join();
}

void ThreadTeam::run_region(Region region) {
  if (workers_.empty()) return region.call(region.context, 0);
  const unsigned before = n_finished_.value();
  region_ = region;
  generation_.add(1);
  region.call(region.context, 0);
  if (region.needs == Needs::kAnyMember && !n_finished_.spin_while(before, kPatience))
    finish_for_late_workers();
  while (n_finished_.value() == before) n_finished_.wait_while(before);
}

void ThreadTeam::finish(size_t worker) noexcept {
  if (finished_.arrive(worker)) n_finished_.add(1);
}

void ThreadTeam::finish_for_late_workers() noexcept {
  const unsigned generation = generation_.value();
  for (size_t i = 0; i < claims_.size(); ++i) {
    const bool has_begun = claims_[i].region.load(std::memory_order_relaxed) == generation;
    if (!has_begun && claims_[i].take(generation)) finish(i);
  }
}

// A worker reads `region_` only after it has claimed the region. The caller changes `region_` only
// after each worker has finished, or will never claim that region.
void ThreadTeam::serve(int member) {
  const auto worker = static_cast<size_t>(member - 1);
  unsigned seen = 0;
  for (;;) {
    generation_.wait_while(seen);
    seen = generation_.value();
    if (stopping_.load(std::memory_order_relaxed)) return;
    if (!claims_[worker].take(seen)) continue;  // too late: the caller has finished for this worker
    region_.call(region_.context, member);
    finish(worker);
  }
}

}  // namespace billow::cpu
