// A fixed team of threads that run one region of code together: fork, work, join. The caller is
// member 0. After a region, the other members spin for a short time, because the next region often
// follows soon. Then they sleep and use no processor. One thread at a time owns and uses a team.
//
// On a busy machine, a member may get a processor only after milliseconds. If work is divided into
// pieces or shares, the members that run do all of it, and the region ends without late members.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <span>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "cpu/cache_line.h"
#include "cpu/join_tree.h"
#include "cpu/placement.h"
#include "cpu/shares.h"

namespace billow::cpu {

class ThreadTeam {
 public:
  // REQUIRES: n_threads >= 1. With one thread, everything runs on the caller. Member i runs on the
  // processors of places[i] only; with no places, on any (cpu/placement.h). The caller is never
  // bound. Without `places`, members are placed for this machine.
  explicit ThreadTeam(int n_threads);
  ThreadTeam(int n_threads, const std::vector<Place>& places);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const noexcept { return static_cast<int>(workers_.size()) + 1; }
  // The NUMA node of each member; empty if members have no places.
  std::span<const int> nodes() const noexcept { return nodes_; }

  // Calls work(member) once on each member, 0 to size() - 1. Returns after all calls. `work` must
  // not throw.
  template <class Work>
  void run(Work&& work) {
    using Plain = std::remove_reference_t<Work>;
    run_region(region_of<Plain>(work, Needs::kAllMembers));
  }

  // Calls work(begin, end, member) for pieces of [0, n) with `piece` items each. A member takes the
  // next piece when it is free. Late members take none. In a team of one thread, [0, n) is one
  // piece.
  template <class Work>
  void for_pieces(size_t n, size_t piece, Work&& work) {
    if (n == 0) return;
    if (n <= piece || workers_.empty()) return work(size_t{0}, n, 0);
    alignas(kCacheLine) std::atomic<size_t> next{0};
    run_divided([&](int member) {
      for (;;) {
        const size_t begin = next.fetch_add(piece, std::memory_order_relaxed);
        if (begin >= n) return;
        work(begin, begin + piece < n ? begin + piece : n, member);
      }
    });
  }

  // The same, but pieces become smaller, down to single items (cpu/shares.h). So members work on
  // long runs and still finish together. REQUIRES: n < 2^32.
  template <class Work>
  void for_shares(size_t n, Work&& work) {
    const auto n_members = static_cast<size_t>(size());
    const auto begin_of = [&](size_t member) { return share_begin(n, member, n_members); };
    for_shares_from(n, begin_of, std::forward<Work>(work));
  }

  // The same. A member begins with the items [begin_of(member), begin_of(member + 1)) and then
  // helps others. REQUIRES: begin_of(0) == 0 and begin_of(size()) == n.
  template <class BeginOf, class Work>
  void for_shares_from(size_t n, const BeginOf& begin_of, Work&& work) {
    if (n == 0) return;
    if (n == 1 || workers_.empty()) return work(size_t{0}, n, 0);
    shares_.reset(begin_of);
    run_divided([&](int member) {
      for (;;) {
        const Shares::Run items = shares_.take(static_cast<size_t>(member));
        if (items.begin == items.end) return;
        work(items.begin, items.end, member);
      }
    });
  }

 private:
  enum class Needs { kAllMembers, kAnyMember };
  struct Region {
    void (*call)(void* context, int member) = nullptr;
    void* context = nullptr;
    Needs needs = Needs::kAllMembers;
  };
  template <class Work>
  static Region region_of(const Work& work, Needs needs) {
    return {[](void* context, int member) { (*static_cast<Work*>(context))(member); },
            const_cast<void*>(static_cast<const void*>(&work)), needs};
  }
  // Calls work(member) on each member that begins in time. REQUIRES: one call does all the work
  // that other calls have not taken.
  template <class Work>
  void run_divided(const Work& work) {
    run_region(region_of<const Work>(work, Needs::kAnyMember));
  }

  // A number whose changes other threads wait for. These threads spin first, then sleep in the
  // kernel. If no thread sleeps, a change needs no system call.
  class Gate {
   public:
    unsigned value() const noexcept { return value_.load(std::memory_order_acquire); }
    void add(unsigned n) noexcept {  // modulo 2^32
      value_.fetch_add(n);
      // A thread that goes to sleep is either counted here, or reads the new number.
      if (n_asleep_.load() != 0) value_.notify_all();
    }
    // Returns when the number is not `old`.
    void wait_while(unsigned old) noexcept;
    // Returns true when the number is not `old`, or false after `max`. Does not sleep.
    bool spin_while(unsigned old, std::chrono::microseconds max) const noexcept;

   private:
    std::atomic<unsigned> value_{0};
    std::atomic<unsigned> n_asleep_{0};
  };
  // The last region that a worker has begun, or that the caller has finished for a late worker.
  // Both claim a region by compare-and-swap, so a region has each worker once.
  struct alignas(kCacheLine) Claim {
    std::atomic<unsigned> region{0};
    bool take(unsigned next) noexcept {
      unsigned before = next - 1;
      return region.compare_exchange_strong(before, next);
    }
  };
  void run_region(Region region);
  void serve(int member);
  void finish(size_t worker) noexcept;
  void finish_for_late_workers() noexcept;
  void stop();

  std::vector<std::thread> workers_;
  std::vector<int> nodes_;
  Shares shares_;
  JoinTree finished_;  // of the workers
  std::vector<Claim> claims_;
  // What begins a region: written by the caller only, and read together.
  alignas(kCacheLine) Gate generation_;  // incremented for each region
  Region region_;
  std::atomic<bool> stopping_{false};
  // What ends a region: incremented by the last worker that finishes it.
  alignas(kCacheLine) Gate n_finished_;
};

}  // namespace billow::cpu
