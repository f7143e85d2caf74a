// Who holds how much memory, against one budget. Bytes are granted before they are used, all or
// nothing. Any number of threads at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>

namespace billow::context {

enum class MemoryClass : uint8_t {
  kWeights,
  kKvInUse,   // blocks of running sequences
  kKvCached,  // of finished ones, kept for prompts that begin alike
  kScratch,
  kAdapters,        // of what runs
  kAdaptersCached,  // of what has run, kept for the next request
};
inline constexpr size_t kMemoryClasses = 6;
std::string_view memory_class_name(
    MemoryClass memory_class) noexcept;  // "weights", "kv_in_use" ...

class Ledger {
 public:
  // Nothing is granted that brings all classes together above `budget` bytes.
  explicit Ledger(uint64_t budget) : budget_(budget) {}
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // False, and nothing has changed, when the budget does not allow it.
  [[nodiscard]] bool grant(MemoryClass memory_class, uint64_t bytes);
  void give_back(MemoryClass memory_class, uint64_t bytes);
  // From one class to another: always possible.
  void move(MemoryClass from, MemoryClass to, uint64_t bytes);

  // From now on. What has been granted stays so, be it more; the next grant waits until it is less.
  void set_budget(uint64_t budget);

  struct Account {
    uint64_t budget = 0;
    std::array<uint64_t, kMemoryClasses> held{};
    uint64_t total = 0;
    uint64_t max = 0;        // the greatest total so far
    uint64_t n_refused = 0;  // grants
    uint64_t of(MemoryClass memory_class) const { return held[static_cast<size_t>(memory_class)]; }
    uint64_t left() const { return budget - std::min(budget, total); }
  };
  Account account() const;  // of one moment

 private:
  mutable std::mutex mutex_;
  uint64_t budget_;
  std::array<uint64_t, kMemoryClasses> held_{};
  uint64_t total_ = 0;
  uint64_t max_ = 0;
  uint64_t n_refused_ = 0;
};

}  // namespace billow::context
