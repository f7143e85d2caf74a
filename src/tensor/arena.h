// Owns the scratch memory of a forward pass: a region that is handed out piece by piece and taken
// back in one step. Used by one thread at a time. Memory is kept between passes; it grows to what
// the largest pass needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tensor/tensor.h"

namespace billow::tensor {

class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Uninitialised memory, aligned to 64 bytes, valid until release(). Throws Error when there is no
  // memory.
  std::byte* bytes(size_t n_bytes);
  template <class T>
  T* array(size_t n) {
    return reinterpret_cast<T*>(bytes(n * sizeof(T)));
  }
  Matrix matrix(size_t n_rows, size_t n_cols) {
    return {array<float>(n_rows * n_cols), n_rows, n_cols};
  }

  // Where the arena stands; release(mark) takes back everything handed out since.
  struct Mark {
    size_t chunk = 0;
    size_t used = 0;
  };
  Mark mark() const noexcept { return at_; }
  void release(Mark mark) noexcept { at_ = mark; }

  // Gives all memory back to the system. REQUIRES: nothing handed out is in use.
  void trim() noexcept;
  size_t n_bytes() const noexcept;  // held from the system

 private:
  struct Free {
    void operator()(std::byte* p) const noexcept;
  };
  struct Chunk {
    std::unique_ptr<std::byte, Free> data;
    size_t n_bytes = 0;
  };
  std::vector<Chunk> chunks_;
  Mark at_;
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
