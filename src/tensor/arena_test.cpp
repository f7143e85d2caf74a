#include "tensor/arena.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/error.h"

namespace billow::tensor {
namespace {

TEST(Arena, AllocatesAlignedPiecesWithoutOverlap) {
  Arena arena;
  std::vector<std::span<const std::byte>> pieces;
  for (const size_t n :
       {size_t{1}, size_t{63}, size_t{64}, size_t{5000}, size_t{3} << 20, size_t{100}}) {
    std::byte* piece = arena.bytes(n);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(piece) % 64, 0u);
    std::memset(piece, 1, n);
    for (const std::span<const std::byte> other : pieces)
      EXPECT_TRUE(piece + n <= other.data() || piece >= other.data() + other.size());
    pieces.emplace_back(piece, n);
  }
}

TEST(Arena, KeepsMemoryBetweenScopesUntilTrim) {
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

TEST(Arena, SizeDependsOnlyOnTheLargestPass) {
  const auto pass = [](Arena& arena, size_t n_rows) {
    ArenaScope scope(arena);
    arena.matrix(n_rows, 5000);
    {
      ArenaScope inner(arena);
      arena.matrix(n_rows, 2000);
    }
    arena.matrix(n_rows, 3000);
  };
  Arena at_once;
  pass(at_once, 500);
  Arena little_by_little;
  for (size_t n_rows = 1; n_rows <= 500; ++n_rows) pass(little_by_little, n_rows);
  EXPECT_EQ(little_by_little.n_bytes(), at_once.n_bytes());
  const size_t needed = size_t{500} * 8000 * sizeof(float);
  EXPECT_EQ(at_once.n_bytes(), (needed + Arena::kPage - 1) / Arena::kPage * Arena::kPage);
}

TEST(Arena, ThrowsForImpossibleSizes) {
  Arena arena;
  arena.bytes(100);
  EXPECT_THROW(arena.bytes(SIZE_MAX), Error);
  EXPECT_THROW(arena.bytes(size_t{1} << 40), Error);
  EXPECT_EQ(arena.n_bytes(), Arena::kPage);
}

}  // namespace
}  // namespace billow::tensor
