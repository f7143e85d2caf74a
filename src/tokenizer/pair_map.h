// A map from a pair of 32-bit numbers to a third number, in one flat array. Merge tables and trie
// edges use it, and encoding looks them up for every character. One thread builds it; then find()
// is thread-safe.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace billow::tokenizer {

class PairMap {
 public:
  static constexpr uint32_t kAbsent = UINT32_MAX;

  PairMap() : slots_(16) {}

  // Reserves memory for n pairs.
  void reserve(size_t n) {
    const size_t wanted = std::bit_ceil(2 * (n + 1));
    if (wanted > slots_.size()) resize(wanted);
  }

  // Stores `value` unless the pair has a value already. Returns the pair's value.
  // REQUIRES: value != kAbsent.
  uint32_t insert(uint32_t first, uint32_t second, uint32_t value) {
    if (2 * (n_used_ + 1) > slots_.size()) resize(2 * slots_.size());
    Slot& slot = slots_[locate(key_of(first, second))];
    if (slot.value == kAbsent) {
      slot = {key_of(first, second), value};
      ++n_used_;
    }
    return slot.value;
  }

  // Fetches the slot of a pair from memory, for a later insert() or find().
  void prefetch(uint32_t first, uint32_t second) const noexcept {
    __builtin_prefetch(&slots_[place_of(key_of(first, second))], 1);
  }

  // Returns the value of a pair; kAbsent if the pair was never inserted.
  uint32_t find(uint32_t first, uint32_t second) const noexcept {
    return slots_[locate(key_of(first, second))].value;
  }

 private:
  struct Slot {
    uint64_t key = 0;
    uint32_t value = kAbsent;
  };

  static uint64_t key_of(uint32_t first, uint32_t second) noexcept {
    return (uint64_t{first} << 32) | second;
  }

  // Returns where the search for `key` begins.
  size_t place_of(uint64_t key) const noexcept {
    uint64_t hash = (key ^ (key >> 29)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
    return static_cast<size_t>(hash) & (slots_.size() - 1);
  }

  // Returns the slot of `key`, or the empty slot for it. The array is never full, so the search
  // ends.
  size_t locate(uint64_t key) const noexcept {
    const size_t mask = slots_.size() - 1;
    size_t at = place_of(key);
    while (slots_[at].value != kAbsent && slots_[at].key != key) at = (at + 1) & mask;
    return at;
  }

  void resize(size_t n) {
    std::vector<Slot> old(n);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.value != kAbsent) slots_[locate(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;
  size_t n_used_ = 0;
};

}  // namespace billow::tokenizer
