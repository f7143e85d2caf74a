#include "cli/numpy.h"

#include <gtest/gtest.h>

#include <vector>

namespace billow::cli {
namespace {

TEST(Numpy, WritesHeadersOfVersionOne) {
  const std::string header = numpy_header(1234567, 384);
  ASSERT_EQ(header.size(), 128u);
  EXPECT_EQ(header.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(header.substr(10, 67),
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1234567, 384), }");
  EXPECT_EQ(header.back(), '\n');
  EXPECT_EQ(numpy_header(UINT64_MAX, UINT64_MAX).size(), 128u);
}

TEST(Numpy, PassesRowsToTheSinkInBoundedPieces) {
  constexpr size_t kRows = 40;
  constexpr size_t kValues = 20000;
  constexpr size_t kMaxBytes = (size_t{1} << 20) + 4 * kValues;
  std::string file;
  size_t n_pieces = 0;
  NumpyRows rows(kRows, kValues, [&](std::span<const std::byte> bytes) {
    EXPECT_LE(bytes.size(), kMaxBytes);
    file.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    ++n_pieces;
  });
  std::string expected = numpy_header(kRows, kValues);
  for (size_t i = 0; i < kRows; ++i) {
    const std::vector<float> row(kValues, static_cast<float>(i) - 0.5f);
    append_numpy_values(expected, row);
    rows.append(row);
  }
  rows.flush();
  EXPECT_EQ(file, expected);
  EXPECT_GT(n_pieces, 2u);
}

}  // namespace
}  // namespace billow::cli
