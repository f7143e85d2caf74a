#include "tensor/arena.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

namespace billow::tensor {
namespace {

TEST(Arena, HandsOutAlignedPiecesThatDoNotOverlap) {
  Arena arena;
  std::byte* previous_end = nullptr;
  for (const size_t n :
       {size_t{1}, size_t{63}, size_t{64}, size_t{5000}, size_t{3} << 20, size_t{100}}) {
    std::byte* piece = arena.bytes(n);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(piece) % 64, 0u);
    if (previous_end != nullptr && piece < previous_end) {
      EXPECT_LE(piece + n, previous_end - 1);
    }
    std::memset(piece, 1, n);
    previous_end = piece + n;
  }
}

TEST(Arena, KeepsItsMemoryBetweenScopesAndGivesItBackWhenTrimmed) {
  Arena arena;
  for (int pass = 0; pass < 3; ++pass) {
    ArenaScope scope(arena);
    arena.matrix(100, 1000);
    arena.matrix(300, 4000);
    arena.matrix(10, 10);
  }
  const size_t after_three = arena.n_bytes();
  {
    ArenaScope scope(arena);
    arena.matrix(100, 1000);
    arena.matrix(300, 4000);
  }
  EXPECT_EQ(arena.n_bytes(), after_three);
  arena.trim();
  EXPECT_EQ(arena.n_bytes(), 0u);
}

}  // namespace
}  // namespace billow::tensor
