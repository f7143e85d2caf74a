// The packed form and the products with it, for every integer format.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "kernels/test_data.h"
#include "quant/unpack.h"

namespace billow::kernels {
namespace {

struct Free {
  void operator()(std::byte* p) const { std::free(p); }
};

// A matrix of one format in its packed form.
class PackedMatrix {
 public:
  PackedMatrix(const KernelTable& table, quant::Type type, size_t n, size_t k,
               const std::vector<std::byte>& rows)
      : packing_(quant::row(type).packing), n_(n), k_(k) {
    const size_t n_bytes = packing_.matrix_bytes(n, k);
    bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(64, n_bytes)));
    std::memset(bytes_.get(), 0xA5, n_bytes);
    std::vector<int8_t> codes(quant::kStripRows * padded(k));
    std::vector<float> scales(codes.size() / 16);
    std::vector<float> offsets(codes.size() / 16);
    const size_t row_bytes = quant::row_bytes(type, k);
    for (size_t row = 0; row < n; row += quant::kStripRows) {
      table.pack_strip[static_cast<size_t>(type)](
          {.weight = rows.data() + row * row_bytes,
           .row_bytes = row_bytes,
           .n_rows = std::min(quant::kStripRows, n - row),
           .k = k,
           .codes = codes.data(),
           .scales = scales.data(),
           .offsets = offsets.data(),
           .out = bytes_.get() + row / 16 * packing_.strip_bytes(k)});
    }
  }
  const std::byte* data() const { return bytes_.get(); }
  size_t n_bytes() const { return packing_.matrix_bytes(n_, k_); }

 private:
  quant::Packing packing_;
  size_t n_, k_;
  std::unique_ptr<std::byte, Free> bytes_;
};

struct Inputs {
  Inputs(size_t m_, size_t k_, unsigned seed) : m(m_), k(k_), x(gaussian(m_ * k_, seed)) {
    const size_t width = padded(k);
    codes.resize(m * width);
    scales.resize(m * width / 32);
    sums.resize(m * width / 16);
    code_sums.resize(m * width / 16);
    for (size_t i = 0; i < m; ++i) {
      scalar().quantize_row(&x[i * k], k, &codes[i * width], &scales[i * width / 32],
                            &sums[i * width / 16], &code_sums[i * width / 16]);
    }
  }
  // Rows [begin, begin + n).
  GemmInput rows(size_t begin, size_t n) const {
    const size_t width = padded(k);
    return {.m = n,
            .k = k,
            .codes = &codes[begin * width],
            .scales = &scales[begin * width / 32],
            .sums = &sums[begin * width / 16],
            .code_sums = &code_sums[begin * width / 16]};
  }
  size_t m, k;
  std::vector<float> x;
  std::vector<int8_t> codes;
  std::vector<float> scales, sums;
  std::vector<int32_t> code_sums;
};

std::vector<float> multiply(const KernelTable& table, quant::Type type, const PackedMatrix& matrix,
                            const GemmInput& input, size_t n, size_t begin, size_t end) {
  std::vector<float> out(input.m * n, -1.0f);
  table.gemm_packed[static_cast<size_t>(type)]({.weight = matrix.data(),
                                                .n_begin = begin,
                                                .n_end = end,
                                                .input = input,
                                                .out = out.data(),
                                                .out_stride = n,
                                                .prefetch_bytes = 1024});
  return out;
}

std::vector<std::byte> encoded_rows(quant::Type type, size_t n, size_t k, unsigned seed) {
  const std::vector<float> values = gaussian(n * k, seed);
  const size_t row_bytes = quant::row_bytes(type, k);
  std::vector<std::byte> rows(n * row_bytes);
  for (size_t i = 0; i < n; ++i) quant::row(type).encode(&values[i * k], k, &rows[i * row_bytes]);
  return rows;
}

std::vector<size_t> widths(const quant::TypeRow& row) {
  if (row.group_len == 256) return {256, 1280};
  return {32, 96, 576, 1056};
}

std::vector<const quant::TypeRow*> packed_types() {
  std::vector<const quant::TypeRow*> found;
  for (const quant::TypeRow& row : quant::types()) {
    EXPECT_EQ(row.integer, row.packing.bits != 0) << row.name;
    if (row.packing.bits != 0) found.push_back(&row);
  }
  return found;
}

std::vector<const KernelTable*> all_tables() {
  std::vector<const KernelTable*> usable = fast_tables();
  usable.push_back(&scalar());
  return usable;
}

class Packed : public EachTable {};

// Bytes and all: whoever packs, whoever multiplies.
TEST_P(Packed, FormIsThatOfTheScalarTable) {
  for (const quant::TypeRow* row : packed_types()) {
    for (const size_t k : widths(*row)) {
      const std::vector<std::byte> rows = encoded_rows(row->type, 21, k, 1);
      const PackedMatrix expected(scalar(), row->type, 21, k, rows);
      const PackedMatrix found(*GetParam(), row->type, 21, k, rows);
      EXPECT_EQ(std::memcmp(expected.data(), found.data(), found.n_bytes()), 0)
          << row->name << " k " << k;
    }
  }
}

// Against double arithmetic on the decoded weights and the quantised inputs: what is left is the
// rounding of K-quants' scales to f16 and of float sums.
TEST_P(Packed, ProductsAreThoseOfTheDecodedWeights) {
  for (const quant::TypeRow* row : packed_types()) {
    for (const size_t k : widths(*row)) {
      const std::vector<std::byte> rows = encoded_rows(row->type, 21, k, 2);
      const PackedMatrix matrix(*GetParam(), row->type, 21, k, rows);
      for (const size_t m : {1u, 2u, 3u, 8u, 17u}) {
        const Inputs inputs(m, k, 3);
        const std::vector<float> out =
            multiply(*GetParam(), row->type, matrix, inputs.rows(0, m), 21, 0, 21);
        std::vector<float> w(k);
        for (size_t n = 0; n < 21; ++n) {
          row->decode(rows.data() + n * quant::row_bytes(row->type, k), k, w.data());
          for (size_t j = 0; j < m; ++j) {
            double sum = 0;
            double size = 0;
            for (size_t i = 0; i < k; ++i) {
              const size_t at = j * padded(k) + i;
              const double x = static_cast<double>(inputs.scales[at / 32]) * inputs.codes[at];
              sum += static_cast<double>(w[i]) * x;
              size += std::abs(static_cast<double>(w[i]) * x);
            }
            EXPECT_NEAR(out[j * 21 + n], sum, 1.2e-3 * size)
                << row->name << " k " << k << " m " << m;
          }
        }
      }
    }
  }
}

TEST_P(Packed, IsBitwiseIndependentOfItsNeighbours) {
  for (const quant::TypeRow* row : packed_types()) {
    const size_t k = widths(*row).back();
    const PackedMatrix matrix(*GetParam(), row->type, 40, k, encoded_rows(row->type, 40, k, 4));
    const Inputs inputs(19, k, 5);
    const std::vector<float> together =
        multiply(*GetParam(), row->type, matrix, inputs.rows(0, 19), 40, 0, 40);
    for (size_t j = 0; j < 19; ++j) {
      for (const size_t cut : {0u, 16u, 32u}) {
        std::vector<float> out =
            multiply(*GetParam(), row->type, matrix, inputs.rows(j, 1), 40, 0, cut);
        const std::vector<float> rest =
            multiply(*GetParam(), row->type, matrix, inputs.rows(j, 1), 40, cut, 40);
        std::copy(rest.begin() + static_cast<long>(cut), rest.end(),
                  out.begin() + static_cast<long>(cut));
        EXPECT_EQ(std::memcmp(out.data(), &together[j * 40], 40 * sizeof(float)), 0)
            << row->name << " row " << j;
      }
    }
  }
}

// Scales far below the range of f16 keep their precision by the row's factor.
TEST_P(Packed, KeepsTinyScales) {
  const size_t k = 256;
  std::vector<float> values = gaussian(16 * k, 6);
  for (float& value : values) value *= 1e-7f;
  std::vector<std::byte> rows(16 * quant::row_bytes(quant::Type::kMXFP4, k));
  for (size_t i = 0; i < 16; ++i) {
    quant::row(quant::Type::kMXFP4)
        .encode(&values[i * k], k, &rows[i * quant::row_bytes(quant::Type::kMXFP4, k)]);
  }
  const PackedMatrix matrix(*GetParam(), quant::Type::kMXFP4, 16, k, rows);
  const Inputs inputs(1, k, 7);
  const std::vector<float> out =
      multiply(*GetParam(), quant::Type::kMXFP4, matrix, inputs.rows(0, 1), 16, 0, 16);
  std::vector<float> w(k);
  for (size_t n = 0; n < 16; ++n) {
    quant::row(quant::Type::kMXFP4)
        .decode(&rows[n * quant::row_bytes(quant::Type::kMXFP4, k)], k, w.data());
    double sum = 0;
    for (size_t i = 0; i < k; ++i) {
      sum +=
          static_cast<double>(w[i]) * static_cast<double>(inputs.scales[i / 32]) * inputs.codes[i];
    }
    EXPECT_NEAR(out[n], sum, 1e-5 * 1e-7 * 256);
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, Packed, testing::ValuesIn(all_tables()), table_name);

}  // namespace
}  // namespace billow::kernels
