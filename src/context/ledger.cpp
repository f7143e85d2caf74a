#include "context/ledger.h"

#include <algorithm>

#include "base/check.h"

namespace billow::context {

std::string_view memory_class_name(MemoryClass memory_class) noexcept {
  constexpr std::array<std::string_view, kMemoryClasses> kNames = {
      "weights", "kv_in_use", "kv_cached", "scratch", "adapters", "adapters_cached"};
  return kNames[static_cast<size_t>(memory_class)];
}

bool Ledger::grant(MemoryClass memory_class, uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  if (total_ > budget_ || bytes > budget_ - total_) {
    ++n_refused_;
    return false;
  }
  held_[static_cast<size_t>(memory_class)] += bytes;
  total_ += bytes;
  max_ = std::max(max_, total_);
  return true;
}

void Ledger::give_back(MemoryClass memory_class, uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  uint64_t& held = held_[static_cast<size_t>(memory_class)];
  BILLOW_CHECK(bytes <= held);
  held -= bytes;
  total_ -= bytes;
}

void Ledger::move(MemoryClass from, MemoryClass to, uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  uint64_t& source = held_[static_cast<size_t>(from)];
  BILLOW_CHECK(bytes <= source);
  source -= bytes;
  held_[static_cast<size_t>(to)] += bytes;
}

void Ledger::set_budget(uint64_t budget) {
  const std::scoped_lock lock(mutex_);
  budget_ = budget;
}

Ledger::Account Ledger::account() const {
  const std::scoped_lock lock(mutex_);
  return {budget_, held_, total_, max_, n_refused_};
}

}  // namespace billow::context
