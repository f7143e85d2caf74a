#include "nn/low_rank.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "nn/packed_weights.h"
#include "nn/test_data.h"

namespace billow::nn {
namespace {

constexpr size_t kIn = 192;
constexpr size_t kRank = 5;

// A pair of random values for each of some matrices. `a` and `b` hold the values as floats.
class RandomAdapter final : public Adapter {
 public:
  struct Values {
    std::vector<float> a;  // [rank][kIn]
    std::vector<float> b;  // [n_rows][rank]
  };
  RandomAdapter(const std::vector<tensor::Tensor>& matrices, unsigned seed)
      : packed_(kernels::select_table(), size_t{8} << 20, {}) {
    max_rank_ = kRank;
    for (const tensor::Tensor& matrix : matrices) {
      Values& values = values_.emplace_back();
      values.a = gaussian(kRank * kIn, ++seed);
      values.b = gaussian(matrix.n_rows * kRank, ++seed);
      const quant::Type type = adapter_type(matrix.type, kIn);
      sources_.push_back(encoded(type, values.a));
      LowRank pair;
      pair.a = {sources_.back().data(), type, kIn, kRank};
      packed_.add(pair.a);
      pair.b_values = adapter_values(matrix.type, kIn);
      blocks_.push_back(std::make_unique<Blocks>());
      put(values.b, matrix.n_rows, pair.b_values, blocks_.back()->bytes);
      pair.b = blocks_.back()->bytes;
      products_.emplace(matrix.data, pair);
    }
    packed_.pack();
  }
  const Values& of(size_t matrix) const { return values_[matrix]; }

 private:
  struct Blocks {
    alignas(64) std::byte bytes[4 * 256 * kRank] = {};
  };
  static void put(const std::vector<float>& b, size_t n_rows, kernels::LowRankValues kind,
                  std::byte* out) {
    constexpr size_t kBlock = kernels::kLowRankBlock;
    const bool has_codes = kind == kernels::LowRankValues::kCodes;
    ASSERT_TRUE(has_codes || kind == kernels::LowRankValues::kFloats);
    const float scale = 1.0f / 30.0f;
    for (size_t row = 0; row < n_rows; ++row) {
      std::byte* const block = out + row / kBlock * kernels::low_rank_bytes(kBlock, kRank, kind);
      for (size_t j = 0; j < kRank; ++j) {
        const size_t at = j * kBlock + row % kBlock;
        const float value = b[row * kRank + j];
        const auto code = static_cast<int8_t>(std::lround(value / scale));
        if (has_codes) {
          std::memcpy(block + at, &code, 1);
          std::memcpy(block + kRank * kBlock + 4 * j, &scale, 4);
        } else {
          std::memcpy(block + 4 * at, &value, 4);
        }
      }
    }
  }

  PackedWeights packed_;
  std::vector<std::vector<std::byte>> sources_;
  std::vector<std::unique_ptr<Blocks>> blocks_;
  std::vector<Values> values_;
};

struct Matrices {
  explicit Matrices(std::initializer_list<std::pair<quant::Type, size_t>> kinds) {
    unsigned seed = 100;
    for (const auto& [type, n_rows] : kinds) {
      bytes.push_back(encoded(type, gaussian(n_rows * kIn, ++seed)));
      all.push_back({bytes.back().data(), type, kIn, n_rows});
    }
  }
  std::vector<std::vector<std::byte>> bytes;
  std::vector<tensor::Tensor> all;
};

class LowRankProducts : public ::testing::TestWithParam<int> {};

// Compares one linear() over rows of several adapters, and rows without one, with double arithmetic
// on top of the products without adapters. Also compares each row with the same row alone, bit for
// bit.
TEST_P(LowRankProducts, AddsTheAdapterOfEachRow) {
  const Matrices matrices({{quant::Type::kF32, 70}, {quant::Type::kQ8_0, 130}});
  const RandomAdapter first(matrices.all, 1);
  const RandomAdapter second({matrices.all[1]}, 50);
  // Runs of one row and of many, in any order; more runs than activation layouts.
  std::vector<const Adapter*> adapters;
  for (const size_t n : std::initializer_list<size_t>{1, 3, 40, 1, 1, 2, 1, 5, 1, 1})
    for (size_t i = 0; i < n; ++i)
      adapters.push_back(n % 2 == 0 ? nullptr : adapters.size() % 3 == 0 ? &second : &first);
  const size_t n_rows = adapters.size();
  std::vector<float> x = gaussian(n_rows * kIn, 3);
  cpu::ThreadTeam team(GetParam());
  tensor::Arena arena;
  const Compute plain{kernels::select_table(), team, arena};
  Compute with = plain;
  with.adapters = adapters;
  const auto run = [&](const Compute& compute, const float* from, size_t n) {
    std::vector<std::vector<float>> out;
    for (const tensor::Tensor& matrix : matrices.all) out.emplace_back(n * matrix.n_rows);
    linear(compute, {const_cast<float*>(from), n, kIn},
           {{matrices.all[0], nullptr, {out[0].data(), n, 70}},
            {matrices.all[1], nullptr, {out[1].data(), n, 130}}});
    return out;
  };
  const auto base = run(plain, x.data(), n_rows);
  const auto sums = run(with, x.data(), n_rows);
  for (size_t row = 0; row < n_rows; ++row) {
    Compute alone = plain;
    alone.adapters = std::span(adapters).subspan(row, 1);
    const auto own = run(alone, x.data() + row * kIn, 1);
    for (size_t m = 0; m < 2; ++m) {
      const size_t n_out = matrices.all[m].n_rows;
      const float* const got = sums[m].data() + row * n_out;
      EXPECT_EQ(std::vector<float>(got, got + n_out), own[m]) << "row " << row << " matrix " << m;
      const float* const before = base[m].data() + row * n_out;
      const auto* adapter = static_cast<const RandomAdapter*>(adapters[row]);
      if (adapter == nullptr || adapter->find(matrices.all[m].data) == nullptr) {
        EXPECT_TRUE(std::equal(got, got + n_out, before)) << "row " << row;
        continue;
      }
      const RandomAdapter::Values& values = adapter->of(adapter == &second ? 0 : m);
      for (size_t i = 0; i < n_out; ++i) {
        double sum = 0.0;
        for (size_t j = 0; j < kRank; ++j) {
          double h = 0.0;
          for (size_t k = 0; k < kIn; ++k)
            h += static_cast<double>(values.a[j * kIn + k] * x[row * kIn + k]);
          sum += h * static_cast<double>(values.b[i * kRank + j]);
        }
        // Sums are about 31; 8-bit codes in all three lose at most a fiftieth.
        EXPECT_NEAR(static_cast<double>(got[i] - before[i]), sum, m == 0 ? 2e-3 : 2.5);
      }
    }
  }
}

// Products that differ by inputs, as for experts: an input has the adapter of its row.
TEST_P(LowRankProducts, InputsHaveTheAdapterOfTheirRow) {
  const Matrices matrices({{quant::Type::kQ8_0, 40}, {quant::Type::kQ8_0, 40}});
  const RandomAdapter adapter(matrices.all, 1);
  const std::vector<const Adapter*> adapters = {nullptr, &adapter, nullptr, &adapter};
  std::vector<float> x = gaussian(4 * kIn, 3);
  const std::vector<uint32_t> rows = {3, 1, 0, 2, 3, 1};
  cpu::ThreadTeam team(GetParam());
  tensor::Arena arena;
  Compute compute{kernels::select_table(), team, arena};
  compute.adapters = adapters;
  std::vector<float> out(rows.size() * 40);
  const tensor::Matrix to = {out.data(), rows.size(), 40};
  const RowsProduct products[] = {{0, 3, matrices.all[0], nullptr, to},
                                  {3, 6, matrices.all[1], nullptr, to}};
  linear_of_rows(compute, {x.data(), 4, kIn}, rows, products);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::vector<float> own(40);
    const ComputeOfRows alone(compute, std::span(rows).subspan(i, 1));
    linear(alone.compute(), {x.data() + rows[i] * kIn, 1, kIn},
           {{matrices.all[i / 3], nullptr, {own.data(), 1, 40}}});
    EXPECT_TRUE(std::equal(own.begin(), own.end(), to.row(i))) << "input " << i;
  }
}

// A sizing pass counts exactly what a pass with adapters of that rank takes. Without adapters, the
// count is lower. Arenas hold whole pages, so the test uses many rows.
TEST_P(LowRankProducts, SizingCountsTheScratchOfAdapters) {
  const Matrices matrices({{quant::Type::kQ8_0, 130}});
  const RandomAdapter adapter(matrices.all, 1);
  constexpr size_t kRows = 20000;
  std::vector<const Adapter*> adapters(kRows, &adapter);
  adapters[0] = nullptr;  // otherwise the adapter would share the inputs of the products
  std::vector<kernels::RowKind> kinds(kRows, kernels::RowKind::kRead);
  kinds[0] = kernels::RowKind::kWritten;
  std::vector<float> x(kRows * kIn, 0.5f);
  std::vector<float> out(kRows * 130);
  cpu::ThreadTeam team(GetParam());
  const auto run = [&](tensor::Arena& arena, const Sizing* sizing) {
    Compute compute{kernels::select_table(), team, arena, sizing};
    if (sizing == nullptr) compute.adapters = adapters;
    if (sizing == nullptr && compute.kernels.has_read_kernels) compute.kinds = kinds;
    linear(compute, {x.data(), kRows, kIn}, {{matrices.all[0], nullptr, {out.data(), kRows, 130}}});
    return arena.n_bytes();
  };
  const auto counted = [&](size_t rank) {
    const Sizing sizing = {.n_threads = static_cast<size_t>(GetParam()), .adapter_rank = rank};
    tensor::Arena arena{tensor::Arena::Counting{}};
    return run(arena, &sizing);
  };
  tensor::Arena arena;
  EXPECT_EQ(counted(kRank), run(arena, nullptr));
  EXPECT_LT(counted(0), counted(kRank));
}

INSTANTIATE_TEST_SUITE_P(Threads, LowRankProducts, ::testing::Values(1, 3));

}  // namespace
}  // namespace billow::nn
