#include "cpu/numa.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace billow::cpu {
namespace {

TEST(Numa, ParsesKernelLists) {
  EXPECT_EQ(numbers_of_list("0"), std::vector<int>{0});
  EXPECT_EQ(numbers_of_list("0-2,5"), (std::vector<int>{0, 1, 2, 5}));
  for (const char* bad : {"", "x", "1-", "0,,1", "-1", "99999", "0;1"}) {
    EXPECT_TRUE(numbers_of_list(bad).empty()) << bad;
  }
}

TEST(Numa, PlacedMemoryIsUsableOnAnyMachine) {
  constexpr size_t kBytes = size_t{1} << 20;
  void* mapped =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  spread_over_nodes(mapped, kBytes);
  put_on_node(mapped, kBytes / 2, 0);
  put_on_node(static_cast<char*>(mapped) + kBytes / 2, kBytes / 2, 7);  // the node may not exist
  auto* bytes = static_cast<unsigned char*>(mapped);
  for (size_t i = 0; i < kBytes; i += 4096) bytes[i] = 1;
  EXPECT_EQ(bytes[kBytes - 4096], 1);
  ::munmap(mapped, kBytes);
}

}  // namespace
}  // namespace billow::cpu
