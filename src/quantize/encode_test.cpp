// Compares with tests/golden/encodings.json. tests/golden/make_encode_golden.py makes that file
// with ggml's own encoders.
#include "quantize/encode.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/test_source_dir.h"
#include "cpu/features.h"
#include "quantize/fits/fits.h"

namespace billow::quantize {
namespace {

constexpr size_t kRows = 4;
constexpr size_t kRowLen = 1024;

struct Data {
  std::vector<float> values;
  std::vector<float> importance;
};

// Returns the same rows as make_encode_golden.py.
Data golden_data() {
  uint64_t state = 1;
  const auto below = [&](uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int>((state >> 33) % n);
  };
  Data data;
  for (size_t i = 0; i < kRows * kRowLen; ++i) {
    int product = 1;
    for (int k = 0; k < 3; ++k) product *= below(255) - 127;
    const bool zero = (i >= 512 && i < 528) || (i >= 1536 && i < 1792);
    data.values.push_back(zero ? 0.0f : static_cast<float>(product) * 0x1p-26f);
  }
  for (size_t i = 0; i < kRowLen; ++i) {
    data.importance.push_back(static_cast<float>(1 + below(255)) / 16.0f);
  }
  return data;
}

Json golden() {
  std::ifstream file(source_dir() + "/tests/golden/encodings.json");
  return Json::parse(file);
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    constexpr const char* kDigits = "0123456789abcdef";
    text += kDigits[static_cast<unsigned>(byte) >> 4];
    text += kDigits[static_cast<unsigned>(byte) & 15];
  }
  return text;
}

uint64_t fnv1a(std::span<const std::byte> bytes) {
  uint64_t digest = 0xCBF29CE484222325u;
  for (const std::byte byte : bytes) {
    digest = (digest ^ static_cast<uint64_t>(byte)) * 0x100000001B3u;
  }
  return digest;
}

std::vector<std::byte> encoded(quant::Type type, const Rows& rows) {
  std::vector<std::byte> bytes(quant::row_bytes(type, rows.values.size()));
  encode_rows(type, rows, bytes.data());
  return bytes;
}

class EncodeTest : public ::testing::TestWithParam<quant::TypeRow> {};

std::vector<quant::TypeRow> encodable() {
  std::vector<quant::TypeRow> rows;
  for (const quant::TypeRow& row : quant::types()) {
    if (can_encode(row.type)) rows.push_back(row);
  }
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Types, EncodeTest, ::testing::ValuesIn(encodable()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(EncodeTest, GivesTheBytesOfGgml) {
  const quant::TypeRow& row = GetParam();
  if (row.type == quant::Type::kF32) return;  // F32 is copied
  const Data data = golden_data();
  const Json expected = golden().at(std::string(row.name));
  EXPECT_EQ(expected.contains("without"), !needs_importance(row.type));
  for (const auto& [key, of_key] : expected.items()) {
    const float* importance = key == "with" ? data.importance.data() : nullptr;
    const std::vector<std::byte> bytes = encoded(row.type, {data.values, kRowLen, importance});
    EXPECT_EQ(hex(std::span(bytes).first(row.group_bytes)), of_key.at("first").get<std::string>())
        << key;
    EXPECT_EQ(fnv1a(bytes), std::stoull(of_key.at("digest").get<std::string>(), nullptr, 16))
        << key;
  }
}

TEST_P(EncodeTest, EncodesARowTheSameAloneAndInABatch) {
  const Data data = golden_data();
  const std::span<const float> values(data.values);
  const quant::Type type = GetParam().type;
  const std::vector<std::byte> all = encoded(type, {values, kRowLen, data.importance.data()});
  const size_t row_bytes = quant::row_bytes(type, kRowLen);
  for (size_t r = 0; r < kRows; ++r) {
    const std::vector<std::byte> alone =
        encoded(type, {values.subspan(r * kRowLen, kRowLen), kRowLen, data.importance.data()});
    EXPECT_EQ(hex(alone), hex(std::span(all).subspan(r * row_bytes, row_bytes))) << r;
  }
}

TEST_P(EncodeTest, AcceptsNanInfinityAndExtremes) {
  std::vector<float> values = golden_data().values;
  const std::vector<float> importance(kRowLen, 0.0f);
  for (const float odd : {std::numeric_limits<float>::max(), -std::numeric_limits<float>::max(),
                          std::numeric_limits<float>::infinity(), std::nanf(""), 1e-40f}) {
    for (size_t i = 0; i < values.size(); i += 37) values[i] = odd;
    encoded(GetParam().type, {values, kRowLen, importance.data()});
    if (!needs_importance(GetParam().type)) encoded(GetParam().type, {values, kRowLen, nullptr});
  }
}

// Compares every search of one instruction set with the baseline search.
void compare(const Fits& fits) {
  const Data data = golden_data();
  std::vector<float> importance;
  for (size_t i = 0; i < kTileGroups * 256; ++i) importance.push_back(data.importance[i % kRowLen]);
  std::vector<float> means(kTileGroups, 1e-3f);
  const auto same = [](const auto& a, const auto& b) {
    EXPECT_EQ(hex(std::as_bytes(std::span(a))), hex(std::as_bytes(std::span(b))));
  };
  for (const float* weights : std::initializer_list<const float*>{nullptr, importance.data()}) {
    const Tile tile = {data.values.data(), weights, means.data()};
    for (const quant::AffineFormat& format :
         {quant::AffineFormat{16, 3, 15}, {32, 15, 63}, {32, 31, 63}}) {
      std::vector<quant::AffineGroup> a(kTileGroups);
      std::vector<quant::AffineGroup> b(kTileGroups);
      kFitsBaseline.affine(tile, format, a.data());
      fits.affine(tile, format, b.data());
      same(a, b);
    }
    const auto symmetric = [&](auto search, auto... more) {
      std::vector<quant::SymmetricGroup> a(kTileGroups);
      std::vector<quant::SymmetricGroup> b(kTileGroups);
      (kFitsBaseline.*search)(tile, more..., a.data());
      (fits.*search)(tile, more..., b.data());
      same(a, b);
    };
    symmetric(&Fits::refined, quant::SymmetricFormat{16, 4, 32});
    symmetric(&Fits::signed_parts, quant::SymmetricFormat{16, 32, 128});
    symmetric(&Fits::codebook, quant::kIq4Values.values);
    const auto block = [&](auto search, auto more) {
      std::vector<BlockFit> a(kTileGroups);
      std::vector<BlockFit> b(kTileGroups);
      (kFitsBaseline.*search)(tile, more, a.data());
      (fits.*search)(tile, more, b.data());
      same(a, b);
    };
    block(&Fits::codebook_block, quant::kIq4Values.values);
    if (weights == nullptr) continue;
    block(&Fits::signed_block, 8);
    block(&Fits::affine_block, 31);
    float a[kTileGroups];
    float b[kTileGroups];
    kFitsBaseline.positive_block(tile, 4, a);
    fits.positive_block(tile, 4, b);
    same(a, b);
  }
}

TEST(FitsTest, AllInstructionSetsGiveTheSameBits) {
  if (cpu::features().avx2) compare(kFitsAvx2);
  if (cpu::features().avx512_vnni) compare(kFitsAvx512);
  compare(fits());
}

}  // namespace
}  // namespace billow::quantize
