// The packed form and products with it, for every weight format.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>

#include "kernels/test_data.h"
#include "quant/half.h"
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
    std::vector<float> scales(quant::kStripRows * padded(k) / 16);
    std::vector<float> offsets(scales.size());
    const size_t row_bytes = quant::row_bytes(type, k);
    for (size_t row = 0; row < n; row += quant::kStripRows) {
      table.of(type).pack_strip({.weight = rows.data() + row * row_bytes,
                                 .row_bytes = row_bytes,
                                 .n_rows = std::min(quant::kStripRows, n - row),
                                 .k = k,
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

// Rows of activations, and their layout for a product.
struct Inputs {
  Inputs(size_t m_, size_t k_, unsigned seed, size_t misalignment = 0)
      : m(m_), k(k_), shift(misalignment), values(gaussian(m_ * k_ + shift, seed)) {}
  const float* row(size_t i) const { return values.data() + shift + i * k; }

  // Returns rows [begin, begin + n) in `layout`.
  std::vector<std::byte> in(const ActivationLayout& layout, size_t begin, size_t n) const {
    std::vector<std::byte> bytes(layout.bytes(n, k));
    const RowGroups groups = layout.groups(n);
    for (size_t g = 0; g < groups.n; ++g) {
      const size_t first = groups.begin(g);
      std::vector<const float*> rows;
      for (size_t i = first; i < groups.begin(g + 1); ++i) rows.push_back(row(begin + i));
      layout.quantize(rows.data(), rows.size(), k, bytes.data() + layout.bytes(first, k));
    }
    return bytes;
  }
  // Returns row i as the products of a table and a type read it.
  std::vector<double> seen(const KernelTable& table, quant::Type type, size_t i) const {
    const InputKind kind = table.of(type).input->kind;
    const std::vector<std::byte> codes = in(*scalar().of(quant::Type::kQ8_0).input, i, 1);
    std::vector<double> x(k);
    for (size_t at = 0; at < k; ++at) {
      x[at] = static_cast<double>(row(i)[at]);
      if (kind == InputKind::kBF16) {
        x[at] = static_cast<double>(quant::bf16_to_f32(quant::f32_to_bf16(row(i)[at])));
      }
      if (kind != InputKind::kCodes) continue;
      const std::byte* block = codes.data() + at / 32 * kActivationRowBytes;
      float scale = 0.0f;
      std::memcpy(&scale, block + 32, sizeof scale);
      x[at] = static_cast<double>(scale) * static_cast<int8_t>(block[at % 32]);
    }
    return x;
  }
  size_t m, k, shift;
  std::vector<float> values;
};

std::vector<float> multiply(const KernelTable& table, quant::Type type, const PackedMatrix& matrix,
                            const Inputs& inputs, size_t first_row, size_t n_rows, size_t n,
                            size_t begin, size_t end) {
  const TypeKernels& kernels = table.of(type);
  const std::vector<std::byte> input = inputs.in(*kernels.input, first_row, n_rows);
  std::vector<float> out(n_rows * n + 1, -1.0f);  // one more, to write at an odd address
  kernels.gemm({.weight = matrix.data(),
                .n_begin = begin,
                .n_end = end,
                .m = n_rows,
                .k = inputs.k,
                .input = input.data(),
                .group_end = kernels.input->groups(n_rows).n,
                .out = out.data() + 1,
                .out_stride = n,
                .prefetch_bytes = 1024});
  out.erase(out.begin());
  return out;
}

std::vector<size_t> widths(const quant::TypeRow& row) {
  if (!row.integer) return {1, 7, 64, 579};
  if (row.group_len == 256) return {256, 1280};
  if (row.group_len == 32) return {32, 96, 576, 1056};
  return {row.group_len, size_t{3} * row.group_len, size_t{9} * row.group_len};
}

std::vector<const KernelTable*> all_tables() {
  std::vector<const KernelTable*> usable = fast_tables();
  usable.push_back(&scalar());
  return usable;
}

// Returns the max error of products, relative to the sum of absolute terms. The exact products use
// the same weights and inputs as the kernels. Errors come from rounding some formats' scales to
// f16, and from sums. A weight halfway between two BF16 may be rounded to the other one.
double tolerance(const KernelTable& table, quant::Type type) {
  const InputKind kind = table.of(type).input->kind;
  if (kind == InputKind::kF16 || kind == InputKind::kCodes)
    return kind == InputKind::kF16 ? 2e-3 : 1.2e-3;
  return quant::row(type).integer ? 2.5e-3 : 1e-6;
}

// Returns the max distance between the products of a table and of scalar, for gaussian weights and
// inputs.
double distance(const KernelTable& table, quant::Type type, size_t k) {
  const InputKind kind = table.of(type).input->kind;
  const auto terms = static_cast<double>(k);
  // Scalar's inputs are codes in this case.
  if (quant::row(type).integer && kind != InputKind::kCodes) return 0.04 * std::sqrt(terms) + 0.03;
  if (kind == InputKind::kBF16) return 0.01 * std::sqrt(terms) + 0.03;
  if (kind == InputKind::kF16) return 0.01 * std::sqrt(terms) + 0.03;
  return 2e-6 * terms;
}

void expect_same_bytes(const std::vector<float>& found, const std::vector<float>& expected,
                       const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0) << what;
}

class Products : public EachTable {};

// Returns a file's weight as the products of a table use it.
float seen_weight(const KernelTable& table, quant::Type type, float w) {
  const bool rounded = table.of(type).input->kind == InputKind::kBF16;
  return rounded ? quant::bf16_to_f32(quant::f32_to_bf16(w)) : w;
}

// All tables pack the same bytes, so that any table can multiply them. F16 that is multiplied as
// BF16 is packed as BF16.
TEST_P(Products, PackedFormEqualsThatOfScalar) {
  for (const quant::TypeRow& row : quant::types()) {
    for (const size_t k : widths(row)) {
      const std::vector<std::byte> rows = encoded_rows(row.type, 21, k, 1);
      const bool as_bf16 = !row.integer && GetParam()->of(row.type).input->kind == InputKind::kBF16;
      std::vector<std::byte> seen = rows;
      if (as_bf16) {
        std::vector<float> values(21 * k);
        row.decode(rows.data(), values.size(), values.data());
        quant::row(quant::Type::kBF16).encode(values.data(), values.size(), seen.data());
      }
      const PackedMatrix expected(scalar(), as_bf16 ? quant::Type::kBF16 : row.type, 21, k, seen);
      const PackedMatrix found(*GetParam(), row.type, 21, k, rows);
      EXPECT_EQ(std::memcmp(expected.data(), found.data(), found.n_bytes()), 0)
          << row.name << " k " << k;
    }
  }
}

// Compares with double arithmetic on the weights and inputs that the products use.
TEST_P(Products, EqualProductsOfTheDecodedWeights) {
  for (const quant::TypeRow& row : quant::types()) {
    for (const size_t k : widths(row)) {
      const std::vector<std::byte> rows = encoded_rows(row.type, 37, k, 2);
      const PackedMatrix matrix(*GetParam(), row.type, 37, k, rows);
      const Inputs inputs(17, k, 3);
      std::vector<std::vector<double>> x;
      for (size_t j = 0; j < inputs.m; ++j) x.push_back(inputs.seen(*GetParam(), row.type, j));
      std::vector<double> sums;   // [input row][weight row]
      std::vector<double> sizes;  // the same, with magnitudes
      std::vector<float> w(37 * k);
      for (size_t n = 0; n < 37; ++n)
        row.decode(rows.data() + n * quant::row_bytes(row.type, k), k, &w[n * k]);
      for (float& weight : w) weight = seen_weight(*GetParam(), row.type, weight);
      for (size_t j = 0; j < inputs.m; ++j) {
        for (size_t n = 0; n < 37; ++n) {
          double sum = 0;
          double size = 0;
          for (size_t i = 0; i < k; ++i) {
            const double product = static_cast<double>(w[n * k + i]) * x[j][i];
            sum += product;
            size += std::abs(product);
          }
          sums.push_back(sum);
          sizes.push_back(size);
        }
      }
      for (const size_t m : {1u, 2u, 3u, 8u, 17u}) {
        const std::vector<float> out =
            multiply(*GetParam(), row.type, matrix, inputs, 0, m, 37, 0, 37);
        for (size_t i = 0; i < m * 37; ++i) {
          EXPECT_NEAR(out[i], sums[i], tolerance(*GetParam(), row.type) * sizes[i])
              << row.name << " k " << k << " m " << m;
        }
      }
    }
  }
}

// Integer sums are exact, so tables differ only by the rounding of float sums, for any number of
// rows, width and address.
TEST_P(Products, AgreesWithScalarForEveryTypeAndShape) {
  for (const quant::TypeRow& row : quant::types()) {
    for (const size_t k : widths(row)) {
      for (const size_t n : {1u, 16u, 50u}) {
        const std::vector<std::byte> rows = encoded_rows(row.type, n, k, 8);
        const PackedMatrix reference(scalar(), row.type, n, k, rows);
        const PackedMatrix matrix(*GetParam(), row.type, n, k, rows);
        for (const size_t m : {1u, 2u, 3u, 8u, 9u, 16u, 17u, 64u}) {
          if (m == 64 && (n != 50 || k != widths(row).back())) continue;  // slow
          const Inputs inputs(m, k, 9, m % 3);
          const std::vector<float> expected =
              multiply(scalar(), row.type, reference, inputs, 0, m, n, 0, n);
          const std::vector<float> found =
              multiply(*GetParam(), row.type, matrix, inputs, 0, m, n, 0, n);
          double largest = 0;
          for (size_t i = 0; i < found.size(); ++i) {
            largest = std::max(largest, static_cast<double>(std::abs(found[i] - expected[i])));
          }
          EXPECT_LT(largest, distance(*GetParam(), row.type, k))
              << row.name << " n " << n << " k " << k << " m " << m;
        }
      }
    }
  }
}

// A row's result depends neither on other rows nor on how outputs are divided. Sequences rely on
// this.
TEST_P(Products, AreBitwiseIndependentOfNeighbours) {
  for (const quant::TypeRow& row : quant::types()) {
    const size_t k = widths(row).back();
    const PackedMatrix matrix(*GetParam(), row.type, 50, k, encoded_rows(row.type, 50, k, 4));
    const Inputs inputs(19, k, 5);
    std::vector<float> alone;
    for (size_t j = 0; j < 19; ++j) {
      const std::vector<float> one =
          multiply(*GetParam(), row.type, matrix, inputs, j, 1, 50, 0, 50);
      alone.insert(alone.end(), one.begin(), one.end());
    }
    for (const size_t m : {2u, 3u, 4u, 5u, 7u, 8u, 9u, 16u, 19u}) {
      const std::vector<float> together =
          multiply(*GetParam(), row.type, matrix, inputs, 0, m, 50, 0, 50);
      expect_same_bytes(together, {alone.begin(), alone.begin() + static_cast<long>(m * 50)},
                        std::string(row.name) + " m " + std::to_string(m));
    }
    for (const size_t m : {1u, 19u}) {
      for (const size_t cut : {0u, 16u, 32u, 48u}) {
        std::vector<float> out = multiply(*GetParam(), row.type, matrix, inputs, 0, m, 50, 0, cut);
        const std::vector<float> rest =
            multiply(*GetParam(), row.type, matrix, inputs, 0, m, 50, cut, 50);
        for (size_t i = 0; i < out.size(); ++i) {
          if (i % 50 < cut) continue;
          EXPECT_EQ(out[i], -1.0f) << "written outside the range";
          out[i] = rest[i];
        }
        expect_same_bytes(out, {alone.begin(), alone.begin() + static_cast<long>(m * 50)},
                          std::string(row.name) + " cut " + std::to_string(cut));
      }
    }
  }
}

// A wide batch over several slabs of k and two blocks of rows.
TEST_P(Products, AreTheSameForHundredsOfRows) {
  for (const quant::Type type : {quant::Type::kQ4_1, quant::Type::kQ6_K, quant::Type::kQ8_0,
                                 quant::Type::kF16, quant::Type::kBF16}) {
    constexpr size_t kWidth = 2304;
    const PackedMatrix matrix(*GetParam(), type, 35, kWidth, encoded_rows(type, 35, kWidth, 4));
    constexpr size_t kRows = 700;
    const Inputs inputs(kRows, kWidth, 5);
    const std::vector<float> together =
        multiply(*GetParam(), type, matrix, inputs, 0, kRows, 35, 0, 35);
    for (size_t j = 0; j < kRows; j += 73) {
      expect_same_bytes(multiply(*GetParam(), type, matrix, inputs, j, 1, 35, 0, 35),
                        {together.begin() + static_cast<long>(j * 35),
                         together.begin() + static_cast<long>((j + 1) * 35)},
                        "row " + std::to_string(j));
    }
  }
}

// Products of floats keep their precision for any size of the inputs. The same is true if single
// inputs are far larger than the others, as in real models.
TEST_P(Products, KeepPrecisionForFloatsOfAnySize) {
  constexpr size_t kWidth = 579;
  for (const quant::Type type : {quant::Type::kF32, quant::Type::kF16, quant::Type::kBF16}) {
    const std::vector<std::byte> rows = encoded_rows(type, 16, kWidth, 12);
    const PackedMatrix matrix(*GetParam(), type, 16, kWidth, rows);
    for (const float size : {1e-25f, 1e-6f, 3e4f, 1e25f}) {
      for (const float outlier : {1.0f, 3e3f}) {
        Inputs inputs(2, kWidth, 13);
        for (float& value : inputs.values) value *= size;
        inputs.values[70] *= outlier;
        const std::vector<float> out = multiply(*GetParam(), type, matrix, inputs, 0, 2, 16, 0, 16);
        std::vector<float> w(kWidth);
        for (size_t n = 0; n < 16; ++n) {
          quant::row(type).decode(rows.data() + n * quant::row_bytes(type, kWidth), kWidth,
                                  w.data());
          double sum = 0;
          double terms = 0;
          const std::vector<double> x = inputs.seen(*GetParam(), type, 0);
          for (size_t i = 0; i < kWidth; ++i) {
            const double term = static_cast<double>(seen_weight(*GetParam(), type, w[i])) * x[i];
            sum += term;
            terms += std::abs(term);
          }
          // After an outlier, every addition rounds relative to it. In half precision these are up
          // to 29 additions, each with an error of at most 2.5e-4.
          const bool rounds = outlier > 1.0f && GetParam()->of(type).input->kind == InputKind::kF16;
          const double near = tolerance(*GetParam(), type) + (rounds ? 5e-3 : 1e-5);
          EXPECT_NEAR(out[n], sum, near * terms)
              << quant::row(type).name << " size " << size << " outlier " << outlier;
        }
      }
    }
  }
}

// A value that is not finite affects only its own row.
TEST_P(Products, BrokenInputsStayInTheirRow) {
  constexpr size_t kWidth = 256;
  for (const quant::TypeRow& row : quant::types()) {
    const PackedMatrix matrix(*GetParam(), row.type, 16, kWidth,
                              encoded_rows(row.type, 16, kWidth, 14));
    Inputs inputs(19, kWidth, 15);
    const std::vector<float> sound =
        multiply(*GetParam(), row.type, matrix, inputs, 0, 19, 16, 0, 16);
    for (const float bad :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      inputs.values[4 * kWidth + 130] = bad;
      const std::vector<float> out =
          multiply(*GetParam(), row.type, matrix, inputs, 0, 19, 16, 0, 16);
      for (size_t i = 0; i < out.size(); ++i) {
        if (i / 16 == 4) {
          EXPECT_FALSE(std::isfinite(out[i])) << row.name;
        } else {
          EXPECT_EQ(out[i], sound[i]) << row.name;
        }
      }
    }
  }
}

// Scales far below the range of f16 keep their precision because of the row's factor.
TEST_P(Products, KeepsTinyScales) {
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
      multiply(*GetParam(), quant::Type::kMXFP4, matrix, inputs, 0, 1, 16, 0, 16);
  const std::vector<double> x = inputs.seen(*GetParam(), quant::Type::kMXFP4, 0);
  std::vector<float> w(k);
  for (size_t n = 0; n < 16; ++n) {
    quant::row(quant::Type::kMXFP4)
        .decode(&rows[n * quant::row_bytes(quant::Type::kMXFP4, k)], k, w.data());
    double sum = 0;
    for (size_t i = 0; i < k; ++i) sum += static_cast<double>(w[i]) * x[i];
    const bool rounded = GetParam()->of(quant::Type::kMXFP4).input->kind == InputKind::kBF16;
    EXPECT_NEAR(out[n], sum, (rounded ? 1e-3 : 1e-5) * 1e-7 * 256);
  }
}

// Sums of codes are exact, so other instructions give the same bits.
TEST_P(Products, IntegerOverlaysEqualTheirBaseBitwise) {
  const std::string name(GetParam()->name);
  const KernelTable* base = nullptr;
  for (const KernelTable* table : tables()) {
    if (name.starts_with("avx_vnni") && table->name == "avx2") base = table;
    if ((name == "amx" || name == "amx_prompts") && table->name == "avx512") base = table;
    if ((name == "amx_emulated" || name == "amx_prompts_emulated") && table->name == "scalar")
      base = table;
  }
  if (base == nullptr) return;  // not an overlay of integer products
  for (const quant::TypeRow& row : quant::types()) {
    if (!row.integer) continue;
    const size_t k = widths(row).back();
    const PackedMatrix matrix(*base, row.type, 50, k, encoded_rows(row.type, 50, k, 10));
    const Inputs inputs(33, k, 11);
    for (const size_t m : {1u, 8u, 9u, 33u}) {
      expect_same_bytes(multiply(*GetParam(), row.type, matrix, inputs, 0, m, 50, 0, 50),
                        multiply(*base, row.type, matrix, inputs, 0, m, 50, 0, 50),
                        std::string(row.name) + " m " + std::to_string(m));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, Products, testing::ValuesIn(all_tables()), table_name);

}  // namespace
}  // namespace billow::kernels
