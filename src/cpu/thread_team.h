// A fixed team of threads that run one region of code together: fork, work, join. The caller is
// member 0. Between two regions that follow closely the others spin; after a short while without
// work they sleep and use no processor. Owned and used by one thread at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <thread>
#include <type_traits>
#include <vector>

namespace billow::cpu {

class ThreadTeam {
 public:
  // REQUIRES: n_threads >= 1. One thread means that everything runs on the caller.
  explicit ThreadTeam(int n_threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const noexcept { return static_cast<int>(workers_.size()) + 1; }

  // Calls work(member) once on each member, 0 to size() - 1, and returns when all have. `work` must
  // not throw.
  template <class Work>
  void run(Work&& work) {
    using Plain = std::remove_reference_t<Work>;
    run_region({[](void* context, int member) { (*static_cast<Plain*>(context))(member); },
                const_cast<void*>(static_cast<const void*>(&work))});
  }

  // Calls work(begin, end, member) for pieces of [0, n) of `piece` items each, handed out as
  // members come free.
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

  // The same with pieces that begin large and end with single items, so that members work on long
  // runs and still finish together.
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
  // A number that others wait to see changed: they spin first, then sleep in the kernel. Changing
  // it is no system call as long as nobody sleeps.
  class Gate {
   public:
    unsigned value() const noexcept { return value_.load(std::memory_order_acquire); }
    void set(unsigned value) noexcept { value_.store(value, std::memory_order_relaxed); }
    void add(unsigned n) noexcept {  // modulo 2^32
      value_.fetch_add(n);
      // Either who goes to sleep is counted by now, or it finds the new number.
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
  Gate generation_;  // grows by one for each region
  Gate n_busy_;      // workers that have not finished the region
  std::atomic<bool> stopping_{false};
};

}  // namespace billow::cpu
