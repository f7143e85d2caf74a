#include "base/byte_size.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace billow {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;

TEST(ByteSize, ParsesBytesUnitsAndFractions) {
  EXPECT_EQ(parse_byte_size("0"), 0u);
  EXPECT_EQ(parse_byte_size("65536"), 65536u);
  EXPECT_EQ(parse_byte_size("7B"), 7u);
  EXPECT_EQ(parse_byte_size("3K"), 3072u);
  EXPECT_EQ(parse_byte_size("512M"), 512 * kMiB);
  for (const char* text : {"2G", "2g", "2GB", "2GiB", "2gib", "2.0G", "2048M"})
    EXPECT_EQ(parse_byte_size(text), 2 * kGiB) << text;
  EXPECT_EQ(parse_byte_size("1.5GiB"), 3 * kGiB / 2);
  EXPECT_EQ(parse_byte_size("0.25T"), 256 * kGiB);
  EXPECT_EQ(parse_byte_size("1.5"), 1u);
}

TEST(ByteSize, IsExactUpToTheMaxNumber) {
  EXPECT_EQ(parse_byte_size("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(parse_byte_size("16777215.5T"), UINT64_MAX - (uint64_t{1} << 39) + 1);
  EXPECT_THROW(parse_byte_size("18446744073709551616"), Error);
  EXPECT_THROW(parse_byte_size("16777216T"), Error);
}

TEST(ByteSize, ParsesShareOfWhole) {
  EXPECT_EQ(parse_byte_size("80%", 1000), 800u);
  EXPECT_EQ(parse_byte_size("12.5%", 1000), 125u);
  EXPECT_EQ(parse_byte_size("100%", UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(parse_byte_size("2K", 1000), 2048u);
  EXPECT_THROW(parse_byte_size("101%", 1000), Error);
  EXPECT_THROW(parse_byte_size("80%"), Error);
}

TEST(ByteSize, RejectsInvalidSizesWithHint) {
  for (const char* text : {"", " ", "G", "-1", "+1", "1 G", "1.G", ".5G", "1.5.5G", "1e9", "2Q",
                           "2Gi", "2GiBs", "0x10", "nan", "inf", "%", "2G ", "1,5G"}) {
    EXPECT_THROW(parse_byte_size(text, 1000), Error) << text;
  }
  try {
    parse_byte_size("2Q");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    EXPECT_EQ(std::string(error.what()).find("'2Q' is not a size; write bytes"), 0u);
  }
}

TEST(ByteSize, FormatsWithOneDecimalDigit) {
  EXPECT_EQ(format_byte_size(0), "0 B");
  EXPECT_EQ(format_byte_size(1023), "1023 B");
  EXPECT_EQ(format_byte_size(1024), "1.0 KiB");
  EXPECT_EQ(format_byte_size(kMiB - 1), "1.0 MiB");
  EXPECT_EQ(format_byte_size(3 * kGiB / 2), "1.5 GiB");
  EXPECT_EQ(format_byte_size(UINT64_MAX), "16.0 EiB");
}

}  // namespace
}  // namespace billow
