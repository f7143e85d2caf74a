// Owns the scratch memory of a forward pass: a region that is handed out piece by piece, side by
// side, and taken back in one step. Used by one thread at a time. Memory is kept between passes: it
// is what the largest pass needed, whatever passes there were before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/address_space.h"
#include "tensor/tensor.h"

namespace billow::tensor {

class Arena {
 public:
  // Memory is held in whole pages of this size.
  static constexpr size_t kPage = AddressSpace::kHugePage;
  static constexpr size_t kAlignment = 64;  // of what is handed out

  Arena() = default;
  // An arena that counts and holds no memory. What it hands out must not be read or written.
  struct Counting {};
  explicit Arena(Counting) noexcept : counting_(true) {}
  // A part of another arena's memory, aligned to kAlignment, which must outlive it. REQUIRES: no
  // more is asked for.
  explicit Arena(std::span<std::byte> lent) noexcept
      : base_(lent.data()), n_held_(lent.size()), lent_(true) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Uninitialised memory, aligned to kAlignment, valid until release(). Throws Error when there is
  // no memory.
  std::byte* bytes(size_t n_bytes);
  template <class T>
  T* array(size_t n) {
    return reinterpret_cast<T*>(bytes(n * sizeof(T)));
  }
  Matrix matrix(size_t n_rows, size_t n_cols) {
    return {array<float>(n_rows * n_cols), n_rows, n_cols};
  }

  // Where the arena stands; release(mark) takes back everything handed out since.
  using Mark = size_t;
  Mark mark() const noexcept { return used_; }
  void release(Mark mark) noexcept { used_ = mark; }

  // Gives all memory back to the system. REQUIRES: nothing handed out is in use; it is not lent.
  void trim() noexcept;
  size_t n_bytes() const noexcept { return n_held_; }  // held from the system, or counted

 private:
  void hold(size_t n_bytes);

  AddressSpace space_;         // none where memory is lent
  std::byte* base_ = nullptr;  // of it, or of what is lent
  size_t used_ = 0;            // bytes that are handed out
  size_t n_held_ = 0;
  bool lent_ = false;
  bool counting_ = false;
};

// Takes back at the end of a scope what was handed out in it.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) noexcept : arena_(arena), mark_(arena.mark()) {}
  ~ArenaScope() { arena_.release(mark_); }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena& arena_;
  Arena::Mark mark_;
};

}  // namespace billow::tensor
