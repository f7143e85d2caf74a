// Compares every table's kernels of recurrent states with formulas in double precision, and rows in
// one call with rows in several calls.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/state_kernels.h"
#include "kernels/test_data.h"

namespace billow::kernels {
namespace {

class States : public EachTable {
 protected:
  const StateKernels& states() const { return *GetParam()->states; }
};

std::vector<const KernelTable*> all_tables() {
  std::vector<const KernelTable*> usable = fast_tables();
  usable.push_back(&scalar());
  return usable;
}

std::vector<float> between(float min, float max, size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> draw(min, max);
  std::vector<float> values(n);
  for (float& value : values) value = draw(random);
  return values;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct LinearCase {
  size_t n_keys;
  bool corrects;
  bool decay_by_key;
};

TEST_P(States, LinearStatesFollowTheirFormula) {
  constexpr size_t kRows = 7;
  for (const LinearCase& shape : {LinearCase{16, false, false}, LinearCase{128, true, false},
                                  LinearCase{32, true, true}, LinearCase{20, false, true}}) {
    const size_t n = shape.n_keys;
    const size_t n_decays = shape.decay_by_key ? n : 1;
    std::vector<float> keys = gaussian(kRows * n, 1);
    std::vector<float> queries = gaussian(kRows * n, 2);
    for (float& key : keys) key /= std::sqrt(static_cast<float>(n));
    const std::vector<float> values = gaussian(kRows * kStatePanel, 3);
    const std::vector<float> decays = between(0.2f, 1.0f, kRows * n_decays, 4);
    const std::vector<float> gains = between(0.0f, 1.0f, kRows, 5);
    const std::vector<float> start = gaussian(n * kStatePanel, 6);
    std::vector<float> state = start;
    std::vector<float> out(kRows * kStatePanel);
    const auto run = [&](size_t first, size_t n_rows) {
      states().linear_state({.state = state.data(),
                             .n_keys = n,
                             .n_rows = n_rows,
                             .keys = keys.data() + first * n,
                             .key_stride = n,
                             .queries = queries.data() + first * n,
                             .query_stride = n,
                             .values = values.data() + first * kStatePanel,
                             .value_stride = kStatePanel,
                             .decays = decays.data() + first * n_decays,
                             .decay_stride = n_decays,
                             .gains = gains.data() + first,
                             .gain_stride = 1,
                             .out = out.data() + first * kStatePanel,
                             .out_stride = kStatePanel,
                             .corrects = shape.corrects,
                             .decay_by_key = shape.decay_by_key});
    };
    run(0, kRows);
    std::vector<double> expected(start.begin(), start.end());
    for (size_t row = 0; row < kRows; ++row) {
      for (size_t v = 0; v < kStatePanel; ++v) {
        double held = 0.0;
        for (size_t k = 0; k < n; ++k) {
          double& s = expected[k * kStatePanel + v];
          s *= static_cast<double>(decays[row * n_decays + (shape.decay_by_key ? k : 0)]);
          held += static_cast<double>(keys[row * n + k]) * s;
        }
        double added = static_cast<double>(values[row * kStatePanel + v]);
        if (shape.corrects) added -= held;
        added *= static_cast<double>(gains[row]);
        double read = 0.0;
        for (size_t k = 0; k < n; ++k) {
          double& s = expected[k * kStatePanel + v];
          s += static_cast<double>(keys[row * n + k]) * added;
          read += static_cast<double>(queries[row * n + k]) * s;
        }
        EXPECT_NEAR(out[row * kStatePanel + v], read, 1e-4) << n << " keys, row " << row;
      }
    }
    for (size_t i = 0; i < state.size(); ++i) EXPECT_NEAR(state[i], expected[i], 1e-5);
    const std::vector<float> whole = out;
    const std::vector<float> end = state;
    state = start;
    for (size_t row = 0; row < kRows; ++row) run(row, 1);
    EXPECT_TRUE(same_bits(out, whole) && same_bits(state, end)) << n << " keys";
  }
}

TEST_P(States, ReplacingStatesFollowTheirFormula) {
  constexpr size_t kRows = 7;
  for (const size_t n : {size_t{16}, size_t{20}, size_t{64}}) {
    // Rows are n + 16 apart, so that the memory after a row of keys cannot be mistaken for keys.
    const size_t stride = n + kStatePanel;
    const auto rows_of = [&](unsigned seed, float factor) {
      std::vector<float> rows = gaussian(kRows * stride, seed);
      for (float& value : rows) value *= factor;
      return rows;
    };
    const float of_key = 1.0f / std::sqrt(static_cast<float>(n));
    const std::vector<float> keys = rows_of(1, of_key);
    const std::vector<float> queries = rows_of(2, 1.0f);
    const std::vector<float> values = rows_of(3, 1.0f);
    const std::vector<float> removed = rows_of(4, of_key);
    const std::vector<float> written = rows_of(5, of_key);
    const std::vector<float> decays = between(0.5f, 1.0f, kRows * stride, 6);
    const std::vector<float> start = gaussian(n * kStatePanel, 7);
    std::vector<float> state = start;
    std::vector<float> out(kRows * stride);
    const auto run = [&](size_t first, size_t n_rows) {
      const size_t at = first * stride;
      states().replacing_state({.state = state.data(),
                                .n_keys = n,
                                .n_rows = n_rows,
                                .keys = keys.data() + at,
                                .queries = queries.data() + at,
                                .decays = decays.data() + at,
                                .removed = removed.data() + at,
                                .written = written.data() + at,
                                .values = values.data() + at,
                                .stride = stride,
                                .out = out.data() + at});
    };
    run(0, kRows);
    std::vector<double> expected(start.begin(), start.end());
    for (size_t row = 0; row < kRows; ++row) {
      const auto at = [&](const std::vector<float>& rows, size_t i) {
        return static_cast<double>(rows[row * stride + i]);
      };
      for (size_t v = 0; v < kStatePanel; ++v) {
        double held = 0.0;
        for (size_t k = 0; k < n; ++k) held += at(removed, k) * expected[k * kStatePanel + v];
        double read = 0.0;
        for (size_t k = 0; k < n; ++k) {
          double& s = expected[k * kStatePanel + v];
          s = at(decays, k) * s + at(keys, k) * at(values, v) - at(written, k) * held;
          read += at(queries, k) * s;
        }
        EXPECT_NEAR(out[row * stride + v], read, 1e-4) << n << " keys, row " << row;
      }
    }
    for (size_t i = 0; i < state.size(); ++i) EXPECT_NEAR(state[i], expected[i], 1e-5);
    const std::vector<float> whole = out;
    const std::vector<float> end = state;
    state = start;
    run(0, 3);
    for (size_t row = 3; row < kRows; ++row) run(row, 1);
    EXPECT_TRUE(same_bits(out, whole) && same_bits(state, end)) << n << " keys";
  }
}

TEST_P(States, ScansFollowTheirFormula) {
  constexpr size_t kRows = 5;
  for (const size_t n : {size_t{1}, size_t{16}, size_t{23}}) {
    const std::vector<float> rates = between(-16.0f, -0.1f, kStatePanel * n, 1);
    const std::vector<float> skips = gaussian(kStatePanel, 2);
    const std::vector<float> steps = between(0.001f, 2.0f, kRows * kStatePanel, 3);
    const std::vector<float> x = gaussian(kRows * kStatePanel, 4);
    const std::vector<float> in = gaussian(kRows * n, 5);
    const std::vector<float> weights = gaussian(kRows * n, 6);
    const std::vector<float> start = gaussian(n * kStatePanel, 7);
    std::vector<float> state = start;
    std::vector<float> out(kRows * kStatePanel);
    const auto run = [&](size_t first, size_t n_rows) {
      states().scan({.state = state.data(),
                     .n_states = n,
                     .n_rows = n_rows,
                     .rates = rates.data(),
                     .skips = skips.data(),
                     .steps = steps.data() + first * kStatePanel,
                     .step_stride = kStatePanel,
                     .x = x.data() + first * kStatePanel,
                     .x_stride = kStatePanel,
                     .in = in.data() + first * n,
                     .in_stride = n,
                     .out_weights = weights.data() + first * n,
                     .out_weight_stride = n,
                     .out = out.data() + first * kStatePanel,
                     .out_stride = kStatePanel});
    };
    run(0, kRows);
    std::vector<double> expected(start.begin(), start.end());
    for (size_t row = 0; row < kRows; ++row) {
      for (size_t c = 0; c < kStatePanel; ++c) {
        const auto step = static_cast<double>(steps[row * kStatePanel + c]);
        const auto value = static_cast<double>(x[row * kStatePanel + c]);
        double sum = static_cast<double>(skips[c]) * value;
        for (size_t i = 0; i < n; ++i) {
          double& s = expected[i * kStatePanel + c];
          s = s * std::exp(step * static_cast<double>(rates[c * n + i])) +
              step * value * static_cast<double>(in[row * n + i]);
          sum += static_cast<double>(weights[row * n + i]) * s;
        }
        EXPECT_NEAR(out[row * kStatePanel + c], sum, 1e-4) << n << " states, row " << row;
      }
    }
    const std::vector<float> whole = out;
    const std::vector<float> end = state;
    state = start;
    run(0, 2);
    run(2, kRows - 2);
    EXPECT_TRUE(same_bits(out, whole) && same_bits(state, end)) << n << " states";
  }
}

TEST_P(States, ConvolutionsSeeEarlierRows) {
  constexpr size_t kRows = 6;
  for (const size_t taps : {size_t{2}, size_t{3}, size_t{4}, kMaxConvTaps}) {
    for (const size_t n : {size_t{1}, size_t{16}, size_t{37}}) {
      const size_t n_before = taps - 1;
      const std::vector<float> all = gaussian((n_before + kRows) * n, 1);
      const std::vector<float> weights = gaussian(n * taps, 2);
      const std::vector<float> bias = gaussian(n, 3);
      for (const bool silu : {false, true}) {
        for (const bool has_before : {false, true}) {
          std::vector<float> out(kRows * n);
          states().conv({.x = all.data() + n_before * n,
                         .x_stride = n,
                         .before = has_before ? all.data() : nullptr,
                         .before_stride = n,
                         .n_rows = kRows,
                         .n_channels = n,
                         .taps = taps,
                         .weights = weights.data(),
                         .bias = has_before ? bias.data() : nullptr,
                         .silu = silu,
                         .out = out.data(),
                         .out_stride = n});
          for (size_t row = 0; row < kRows; ++row) {
            for (size_t c = 0; c < n; ++c) {
              double sum = has_before ? static_cast<double>(bias[c]) : 0.0;
              for (size_t t = has_before || row >= n_before ? 0 : n_before - row; t < taps; ++t)
                sum += static_cast<double>(weights[c * taps + t]) *
                       static_cast<double>(all[(row + t) * n + c]);
              if (silu) sum /= 1.0 + std::exp(-sum);
              EXPECT_NEAR(out[row * n + c], sum, 1e-5) << taps << " taps, " << n << " channels";
            }
          }
        }
      }
    }
  }
}

TEST_P(States, SoftplusIsExactOverItsWholeRange) {
  std::vector<float> x;
  for (float value = -100.0f; value < 100.0f; value += 0.37f) x.push_back(value);
  std::vector<float> out = x;
  states().softplus(out.data(), out.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const auto v = static_cast<double>(x[i]);
    const double expected = std::max(v, 0.0) + std::log1p(std::exp(-std::abs(v)));
    EXPECT_NEAR(out[i], expected, 5e-7 * expected + 1e-37) << x[i];
  }
}

INSTANTIATE_TEST_SUITE_P(All, States, testing::ValuesIn(all_tables()), table_name);

}  // namespace
}  // namespace billow::kernels
