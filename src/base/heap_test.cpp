#include "base/heap.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstddef>
#include <cstring>
#include <memory>

namespace billow {
namespace {

TEST(Heap, LargeBlocksGoBackHoweverOftenTheyAreMade) {
#ifndef __GLIBC__
  GTEST_SKIP() << "the C library is not glibc";
#else
  settle_heap(2);
  const size_t n_before = ::mallinfo2().hblks;
  for (int i = 0; i < 3; ++i) {
    const auto block = std::make_unique<std::byte[]>(size_t{1} << 20);
    std::memset(block.get(), 1, size_t{1} << 20);
    const size_t n_mapped = ::mallinfo2().hblks;
    if (i == 0 && n_mapped == 0) GTEST_SKIP() << "a sanitizer has the heap";
    EXPECT_EQ(n_mapped, n_before + 1) << "block " << i << " is not mapped on its own";
  }
  EXPECT_EQ(::mallinfo2().hblks, n_before);
#endif
}

}  // namespace
}  // namespace billow
