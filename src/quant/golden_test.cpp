// Compares with tests/golden/quant.json, which tests/golden/make_quant_golden.py generates with the
// gguf Python package.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/test_source_dir.h"
#include "quant/type.h"

namespace billow::quant {
namespace {

Json golden() {
  std::ifstream file(source_dir() + "/tests/golden/quant.json");
  return Json::parse(file);
}

std::vector<std::byte> bytes_of(const Json& hex) {
  const std::string text = hex.get<std::string>();
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::vector<float> floats_of(const Json& hex) {
  const std::vector<std::byte> bytes = bytes_of(hex);
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
  return floats;
}

TEST(GoldenTest, DecodesBitForBit) {
  const Json list = golden().at("decode");
  ASSERT_FALSE(list.empty());
  for (const Json& entry : list) {
    const TypeRow* format = find_type(entry.at("type").get<std::string>());
    ASSERT_NE(format, nullptr) << entry.at("type");
    const std::vector<std::byte> bytes = bytes_of(entry.at("bytes"));
    const std::vector<float> expected = floats_of(entry.at("floats"));
    ASSERT_EQ(bytes.size(), row_bytes(format->type, expected.size()));
    std::vector<float> decoded(expected.size());
    format->decode(bytes.data(), decoded.size(), decoded.data());
    EXPECT_EQ(std::memcmp(decoded.data(), expected.data(), expected.size() * sizeof(float)), 0)
        << format->name;
  }
}

uint64_t fnv1a(const std::vector<float>& floats) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const std::byte byte : std::as_bytes(std::span(floats))) {
    hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001B3u;
  }
  return hash;
}

TEST(GoldenTest, DecodesManyGroupsOfGridsBitForBit) {
  const Json list = golden().at("digest");
  ASSERT_FALSE(list.empty());
  for (const Json& entry : list) {
    const TypeRow* format = find_type(entry.at("type").get<std::string>());
    ASSERT_NE(format, nullptr) << entry.at("type");
    const std::vector<std::byte> bytes = bytes_of(entry.at("bytes"));
    std::vector<float> decoded(bytes.size() / format->group_bytes * format->group_len);
    format->decode(bytes.data(), decoded.size(), decoded.data());
    EXPECT_EQ(fnv1a(decoded), std::stoull(entry.at("digest").get<std::string>(), nullptr, 16))
        << format->name;
  }
}

TEST(GoldenTest, EncodesByteForByte) {
  const Json list = golden().at("encode");
  ASSERT_FALSE(list.empty());
  for (const Json& entry : list) {
    const TypeRow* format = find_type(entry.at("type").get<std::string>());
    ASSERT_NE(format, nullptr) << entry.at("type");
    const std::vector<float> values = floats_of(entry.at("floats"));
    std::vector<std::byte> encoded(row_bytes(format->type, values.size()));
    format->encode(values.data(), values.size(), encoded.data());
    EXPECT_EQ(encoded, bytes_of(entry.at("bytes"))) << format->name;
  }
}

}  // namespace
}  // namespace billow::quant
