// Reads the output of pack_strip by the description in quant/packing.h.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/test_data.h"
#include "quant/half.h"

namespace billow::kernels {
namespace {

// Reads a strip of the packed form, one weight at a time.
class StripReader {
 public:
  StripReader(const quant::Packing& packing, const std::vector<std::byte>& strip)
      : packing_(packing), bytes_(reinterpret_cast<const uint8_t*>(strip.data())) {}

  float weight(size_t row, size_t k) const {
    const size_t run_len = 64 * packing_.run_blocks();
    const uint8_t* run = bytes_ + 64 + k / run_len * packing_.run_bytes();
    const uint8_t* block = run + packing_.head_bytes() + k % run_len / 64 * packing_.block_bytes();
    const size_t part_len = packing_.scales_per_32 == 2 ? 16 : 32;
    const size_t part = k % run_len / part_len;
    const int own = value_of(code(block, k % 64 / 4, row, k % 4));
    float factor;
    std::memcpy(&factor, bytes_ + 4 * row, sizeof factor);
    return factor * (packing_.has_heads() ? by_head(run, part * 16 + row, row, own)
                                          : by_block(block, part * 16 + row, own));
  }

 private:
  static float half(const uint8_t* halves, size_t i) {
    uint16_t bits;
    std::memcpy(&bits, halves + 2 * i, sizeof bits);
    return quant::f16_to_f32(bits);
  }
  static int bit(const uint8_t* bits, size_t i) { return (bits[i / 8] >> (i % 8)) & 1; }

  float by_block(const uint8_t* block, size_t i, int own) const {
    const uint8_t* scales = block + packing_.code_bytes();
    const float value = half(scales, i) * static_cast<float>(own);
    return packing_.offsets ? value + half(scales + packing_.scale_bytes(), i) : value;
  }
  float by_head(const uint8_t* head, size_t i, size_t row, int own) const {
    const uint8_t* bytes = head + 64;
    if (!packing_.offsets) {
      float unit;
      std::memcpy(&unit, head + 4 * row, sizeof unit);
      return unit * static_cast<float>(static_cast<int8_t>(bytes[i])) * static_cast<float>(own);
    }
    const bool nibbles = packing_.scale_form == quant::ScaleForm::kNibbles;
    const int scale = nibbles ? bytes[i] & 15 : bytes[i];
    const int offset = nibbles ? bytes[i] >> 4 : bytes[packing_.head_scale_bytes() + i];
    return half(head, row) * static_cast<float>(scale * own) +
           half(head, 16 + row) * static_cast<float>(offset);
  }

  int code(const uint8_t* block, size_t quad, size_t row, size_t i) const {
    const size_t at = 4 * row + i;
    const auto pair_of_bits = [&](const uint8_t* plane) {
      return (plane[quad / 4 * 64 + at] >> (quad % 4 * 2)) & 3;
    };
    const uint8_t* second = block + (packing_.bits < 4 ? 256 : 512);
    const auto nibble = [&] { return (block[quad / 2 * 64 + at] >> (quad % 2 * 4)) & 15; };
    switch (packing_.bits) {
      case 2:
        return pair_of_bits(block);
      case 3:
        return pair_of_bits(block) | bit(second + 8 * quad, at) << 2;
      case 5:
        return nibble() | bit(second + 8 * quad, at) << 4;
      case 6:
        return nibble() | pair_of_bits(second) << 4;
      case 8:
        return static_cast<int8_t>(block[quad * 64 + at]);
      default:
        return nibble();
    }
  }
  int value_of(int code) const {
    return packing_.has_codebook() ? packing_.codebook().values[code] : code - packing_.zero();
  }

  quant::Packing packing_;
  const uint8_t* bytes_;
};

class Pack : public testing::TestWithParam<const KernelTable*> {};

TEST_P(Pack, StripHoldsTheDecodedWeightsAndZeroPadding) {
  for (const quant::TypeRow& type : quant::types()) {
    if (!type.integer) continue;
    const size_t k = type.group_len == 32 ? 96 : 3 * type.group_len;
    constexpr size_t kRows = 13;
    const size_t row_bytes = quant::row_bytes(type.type, k);
    const std::vector<std::byte> rows = encoded_rows(type.type, kRows, k, 1);
    std::vector<float> scales(padded(k));
    std::vector<float> offsets(padded(k));
    std::vector<std::byte> strip(type.packing.strip_bytes(k), std::byte{0xA5});
    GetParam()->of(type.type).pack_strip({.weight = rows.data(),
                                          .row_bytes = row_bytes,
                                          .n_rows = kRows,
                                          .k = k,
                                          .scales = scales.data(),
                                          .offsets = offsets.data(),
                                          .out = strip.data()});
    const StripReader reader(type.packing, strip);
    std::vector<float> expected(k);
    for (size_t r = 0; r < quant::kStripRows; ++r) {
      std::fill(expected.begin(), expected.end(), 0.0f);
      if (r < kRows) type.decode(&rows[r * row_bytes], k, expected.data());
      float largest = 0.0f;
      for (const float x : expected) largest = std::max(largest, std::fabs(x));
      for (size_t i = 0; i < padded(k); ++i) {
        const float wanted = i < k ? expected[i] : 0.0f;
        // Scales in heads are not rounded.
        const float tolerance = type.packing.has_heads() ? 1e-6f : 2e-3f;
        ASSERT_NEAR(reader.weight(r, i), wanted, tolerance * largest)
            << type.name << " row " << r << " k " << i;
      }
    }
  }
}

std::vector<const KernelTable*> all_tables() {
  std::vector<const KernelTable*> usable = fast_tables();
  usable.push_back(&scalar());
  return usable;
}

INSTANTIATE_TEST_SUITE_P(Isa, Pack, testing::ValuesIn(all_tables()), table_name);

}  // namespace
}  // namespace billow::kernels
