// A fixed team of threads that run one region of code together: fork, work, join. The caller is
// member 0. After a region, the other members spin for a short time, because the next region often
// follows soon. Then they sleep and use no processor. One thread at a time owns and uses a team.
#pragma once

#include <atomic>
#include <cstddef>
#include <thread>
#include <type_traits>
#include <vector>

namespace billow::cpu {

class ThreadTeam {
 public:
  // REQUIRES: n_threads >= 1. With one thread, everything runs on the caller.
  explicit ThreadTeam(int n_threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const noexcept { return static_cast<int>(workers_.size()) + 1; }

  // Calls work(member) once on each member, 0 to size() - 1. Returns after all calls. `work` must
  // not throw.
  template <class Work>
  void run(Work&& work) {
    using Plain = std::remove_reference_t<Work>;
    run_region({[](void* context, int member) { (*static_cast<Plain*>(context))(member); },
                const_cast<void*>(static_cast<const void*>(&work))});
  }

  // Calls work(begin, end, member) for pieces of [0, n) with `piece` items each. A member takes the
  // next piece when it is free. In a team of one thread, [0, n) is one piece.
  template <class Work>
  void for_pieces(size_t n, size_t piece, Work&& work) {
    if (n == 0) return;
    if (n <= piece || workers_.empty()) return work(size_t{0}, n, 0);
    std::atomic<size_t> next{0};
    run([&](int member) {
      for (;;) {
        const size_t begin = next.fetch_add(piece, std::memory_order_relaxed);
        if (begin >= n) return;
        work(begin, begin + piece < n ? begin + piece : n, member);
      }
    });
  }

  // The same, but pieces become smaller, down to single items. So members take few pieces and still
  // finish together.
  template <class Work>
  void for_shares(size_t n, Work&& work) {
    if (n == 0) return;
    if (n == 1 || workers_.empty()) return work(size_t{0}, n, 0);
    std::atomic<size_t> next{0};
    const size_t n_shares = 2 * static_cast<size_t>(size());
    run([&](int member) {
      for (;;) {
        size_t begin = next.load(std::memory_order_relaxed);
        size_t end = 0;
        do {
          if (begin >= n) return;
          end = begin + (n - begin + n_shares - 1) / n_shares;
        } while (!next.compare_exchange_weak(begin, end, std::memory_order_relaxed));
        work(begin, end, member);
      }
    });
  }

 private:
  struct Region {
    void (*call)(void* context, int member) = nullptr;
    void* context = nullptr;
  };
  // A number whose changes other threads wait for. These threads spin first, then sleep in the
  // kernel. If no thread sleeps, a change needs no system call.
  class Gate {
   public:
    unsigned value() const noexcept { return value_.load(std::memory_order_acquire); }
    void set(unsigned value) noexcept { value_.store(value, std::memory_order_relaxed); }
    void add(unsigned n) noexcept {  // modulo 2^32
      value_.fetch_add(n);
      // A thread that goes to sleep is either counted here, or reads the new number.
      if (n_asleep_.load() != 0) value_.notify_all();
    }
    void wait_while(unsigned old) noexcept;

   private:
    std::atomic<unsigned> value_{0};
    std::atomic<unsigned> n_asleep_{0};
  };
  void run_region(Region region);
  void serve(int member);

  std::vector<std::thread> workers_;
  Region region_;
  Gate generation_;  // incremented for each region
  Gate n_busy_;      // workers that have not finished the region
  std::atomic<bool> stopping_{false};
};

}  // namespace billow::cpu
