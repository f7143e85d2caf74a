#include "kv/populator.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <vector>

namespace billow::kv {
namespace {

constexpr size_t kPage = 4096;

class PopulatorTest : public testing::Test {
 protected:
  PopulatorTest()
      : memory_(static_cast<std::byte*>(
            ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~PopulatorTest() override { ::munmap(memory_, kSize); }
  size_t n_resident() const {
    std::vector<unsigned char> pages(kSize / kPage);
    EXPECT_EQ(::mincore(memory_, kSize, pages.data()), 0);
    size_t n = 0;
    for (const unsigned char page : pages) n += page & 1u;
    return n;
  }
  static constexpr size_t kSize = size_t{1} << 20;
  std::byte* memory_;
};

TEST_F(PopulatorTest, MakesWholePagesResidentAndChangesNothing) {
  std::memset(memory_ + 5 * kPage, 7, kPage);
  const size_t before = n_resident();
  Populator populator;
  populator.populate({memory_ + 4 * kPage + 100, 3 * kPage});
  populator.wait();
  if (n_resident() == before) GTEST_SKIP() << "this system has no MADV_POPULATE_WRITE";
  EXPECT_EQ(n_resident(), before + 3);  // pages 4, 6 and 7; page 5 was resident
  for (size_t i = 0; i < kPage; ++i) ASSERT_EQ(memory_[5 * kPage + i], std::byte{7});
}

TEST_F(PopulatorTest, StopsCleanlyAfterManyRequestsOrNone) {
  Populator idle;
  idle.wait();
  Populator busy;
  for (size_t i = 0; i < 1000; ++i) busy.populate({memory_ + i % 256 * kPage, kPage});
  busy.wait();
  Populator ended;
  ended.populate({memory_, kSize});
}

}  // namespace
}  // namespace billow::kv
