// Owns the scratch memory of a forward pass. The arena allocates pieces one after another and frees
// them in one step. One thread at a time. The arena keeps its memory between passes. Its size
// depends only on the largest pass.
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
  static constexpr size_t kAlignment = 64;  // of allocated pieces

  Arena() = default;
  // An arena that counts bytes and holds no memory. Its pieces must not be read or written.
  struct Counting {};
  explicit Arena(Counting) noexcept : counting_(true) {}
  // Uses a part of another arena's memory, aligned to kAlignment. The other arena must live longer.
  // REQUIRES: allocations fit into this part.
  explicit Arena(std::span<std::byte> lent) noexcept
      : base_(lent.data()), n_held_(lent.size()), lent_(true) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Returns uninitialised memory, aligned to kAlignment, valid until release(). Throws Error if
  // there is no memory.
  std::byte* bytes(size_t n_bytes);
  template <class T>
  T* array(size_t n) {
    return reinterpret_cast<T*>(bytes(n * sizeof(T)));
  }
  Matrix matrix(size_t n_rows, size_t n_cols) {
    return {array<float>(n_rows * n_cols), n_rows, n_cols};
  }

  // A position in the arena. release(mark) frees everything that was allocated after mark().
  using Mark = size_t;
  Mark mark() const noexcept { return used_; }
  void release(Mark mark) noexcept { used_ = mark; }

  // Returns all memory to the system. REQUIRES: no piece is in use, and the memory is not lent.
  void trim() noexcept;
  size_t n_bytes() const noexcept { return n_held_; }  // held from the system, or counted

 private:
  void hold(size_t n_bytes);

  AddressSpace space_;         // empty if the memory is lent
  std::byte* base_ = nullptr;  // start of space_, or of the lent memory
  size_t used_ = 0;            // allocated bytes
  size_t n_held_ = 0;
  bool lent_ = false;
  bool counting_ = false;
};

// At the end of a scope, frees everything that was allocated in the scope.
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
