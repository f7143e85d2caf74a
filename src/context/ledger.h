// Accounts of memory by class, against one budget. Bytes are granted before they are used, all or
// nothing. Thread-safe.
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
  kKvCached,  // blocks of finished sequences, kept for prompts with the same prefix
  kScratch,
  kAdapters,        // of running requests
  kAdaptersCached,  // of finished requests, kept for the next request
};
inline constexpr size_t kMemoryClasses = 6;
std::string_view memory_class_name(
    MemoryClass memory_class) noexcept;  // "weights", "kv_in_use" ...

class Ledger {
 public:
  // The sum of all classes stays within `budget` bytes.
  explicit Ledger(uint64_t budget) : budget_(budget) {}
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Grants bytes to a class. Returns false and changes nothing if the budget does not allow the
  // grant.
  [[nodiscard]] bool grant(MemoryClass memory_class, uint64_t bytes);
  void give_back(MemoryClass memory_class, uint64_t bytes);
  // Moves bytes from one class to another. Always possible.
  void move(MemoryClass from, MemoryClass to, uint64_t bytes);

  // Sets the budget from here on. Granted bytes stay granted, even above the budget. Further grants
  // fail until the total is below the budget.
  void set_budget(uint64_t budget);

  struct Account {
    uint64_t budget = 0;
    std::array<uint64_t, kMemoryClasses> held{};
    uint64_t total = 0;
    uint64_t max = 0;        // max total so far
    uint64_t n_refused = 0;  // refused grants
    uint64_t of(MemoryClass memory_class) const { return held[static_cast<size_t>(memory_class)]; }
    uint64_t left() const { return budget - std::min(budget, total); }
  };
  Account account() const;  // consistent snapshot

 private:
  mutable std::mutex mutex_;
  uint64_t budget_;
  std::array<uint64_t, kMemoryClasses> held_{};
  uint64_t total_ = 0;
  uint64_t max_ = 0;
  uint64_t n_refused_ = 0;
};

}  // namespace billow::context
