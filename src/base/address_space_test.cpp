#include "base/address_space.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/test_folder.h"

namespace billow {
namespace {

constexpr size_t kPage = AddressSpace::kHugePage;

// Returns the bytes that this process may write. Systems without overcommit count these bytes.
size_t writable_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmData:")) return std::stoul(line.substr(7)) * 1024;
  return 0;
}

TEST(AddressSpace, CommitsOnlyHeldPages) {
  const size_t before = writable_bytes();
  ASSERT_GT(before, 0u);
  constexpr size_t kSlack = size_t{1} << 20;  // what the test itself allocates
  AddressSpace space(size_t{1} << 40, "tests");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(space.data()) % kPage, 0u);
  EXPECT_LT(writable_bytes(), before + kSlack);
  ASSERT_TRUE(space.hold(0, 4 * kPage));
  ASSERT_TRUE(space.hold(2 * kPage, 8 * kPage));
  space.data()[0] = space.data()[8 * kPage - 1] = std::byte{7};
  EXPECT_GE(writable_bytes(), before + 8 * kPage);
  EXPECT_LT(writable_bytes(), before + 8 * kPage + kSlack);
  space.give_back(kPage, 8 * kPage);
  EXPECT_LT(writable_bytes(), before + kPage + kSlack);
  EXPECT_EQ(space.data()[0], std::byte{7});
  ASSERT_TRUE(space.hold(7 * kPage, 8 * kPage));
  EXPECT_EQ(space.data()[8 * kPage - 1], std::byte{0});
}

TEST(AddressSpace, ReportsRefusedReservationsAndHolds) {
  EXPECT_THROW(AddressSpace(SIZE_MAX, "tests"), Error);
  EXPECT_THROW(AddressSpace(size_t{1} << 60, "tests"), Error);
  AddressSpace space(64 * kPage, "tests");
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_DATA, &old), 0);
  rlimit low = old;
  low.rlim_cur = writable_bytes() + 16 * kPage;
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &low), 0);
  const bool all = space.hold(0, 64 * kPage);
  const bool some = space.hold(0, 4 * kPage);
  ::setrlimit(RLIMIT_DATA, &old);
  EXPECT_FALSE(all);
  EXPECT_TRUE(some);
  space.data()[0] = std::byte{1};
}

TEST(AddressSpace, MapsFileOverItsRange) {
  const TestFolder folder;
  const std::string path = folder.file("shown");
  std::ofstream(path) << std::string(5000, 'x');
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  AddressSpace space(2 * kPage, "tests");
  EXPECT_FALSE(space.show_file(-1, 5000));
  ASSERT_TRUE(space.show_file(fd, 5000));
  ::close(fd);
  EXPECT_EQ(space.data()[4999], std::byte{'x'});
  space.give_back(0, 5000);
  ASSERT_TRUE(space.hold(0, kPage));
  EXPECT_EQ(space.data()[4999], std::byte{0});
  space.data()[4999] = std::byte{7};
}

}  // namespace
}  // namespace billow
