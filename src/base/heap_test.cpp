#include "base/heap.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

namespace billow {
namespace {

TEST(Heap, LargeBlocksAlwaysGetTheirOwnMapping) {
#ifndef __GLIBC__
  GTEST_SKIP() << "the C library is not glibc";
#else
  settle_heap(2);
  const size_t n_before = ::mallinfo2().hblks;
  for (int i = 0; i < 3; ++i) {
    const auto block = std::make_unique<std::byte[]>(size_t{1} << 20);
    std::memset(block.get(), 1, size_t{1} << 20);
    const size_t n_mapped = ::mallinfo2().hblks;
    if (i == 0 && n_mapped == 0) GTEST_SKIP() << "a sanitizer replaces the heap";
    EXPECT_EQ(n_mapped, n_before + 1) << "block " << i << " has no mapping of its own";
  }
  EXPECT_EQ(::mallinfo2().hblks, n_before);
#endif
}

size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  size_t n_pages = 0;
  statm >> n_pages >> n_pages;
  return n_pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(Heap, TrimFreesPagesBetweenUsedBlocks) {
#ifndef __GLIBC__
  GTEST_SKIP() << "the C library is not glibc";
#else
  constexpr size_t kBytes = size_t{64} << 10;
  if (::mallinfo2().uordblks == 0) GTEST_SKIP() << "a sanitizer replaces the heap";
  std::vector<std::unique_ptr<std::byte[]> > free;
  std::vector<std::unique_ptr<std::byte[]> > used;
  for (int i = 0; i < 1000; ++i) {
    free.push_back(std::make_unique<std::byte[]>(kBytes));
    std::memset(free.back().get(), 1, kBytes);
    used.push_back(std::make_unique<std::byte[]>(64));
  }
  free.clear();
  const size_t before = resident_bytes();
  trim_heap();
  EXPECT_LT(resident_bytes(), before - (size_t{32} << 20));
#endif
}

}  // namespace
}  // namespace billow
