#include "base/base64.h"

#include <gtest/gtest.h>

namespace billow {
namespace {

TEST(Base64, MatchesRfcVectors) {
  const std::pair<const char*, const char*> kVectors[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : kVectors) {
    EXPECT_EQ(base64_encoded(bytes), text);
    EXPECT_EQ(base64_decoded(text), bytes);
  }
}

TEST(Base64, RestoresEveryByteValue) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  EXPECT_EQ(base64_decoded(base64_encoded(bytes)), bytes);
}

TEST(Base64, ReportsOffsetOfFault) {
  const std::pair<const char*, size_t> kFaults[] = {{"Z", 1},        {"Zg", 2},    {"Zg=", 3},
                                                    {"=", 0},        {"Z===", 1},  {"Zm9v!", 4},
                                                    {"Zg==Zg==", 4}, {"Zm8=x", 4}, {"Zg===", 4}};
  for (const auto& [text, offset] : kFaults) {
    size_t fault = 99;
    EXPECT_FALSE(base64_decoded(text, &fault)) << text;
    EXPECT_EQ(fault, offset) << text;
  }
  EXPECT_EQ(base64_decoded("Zm\r\n9v\n"), "foo");
}

}  // namespace
}  // namespace billow
