// Compares rows of several sequences, and states that move from block to block, with one run.
#include "nn/states.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "nn/test_data.h"

namespace billow::nn {
namespace {

constexpr size_t kChannels = 48;
constexpr size_t kTaps = 4;
constexpr LinearState kShape = {.n_heads = 4, .n_keys = 8, .n_values = 16, .n_key_heads = 2};

struct Inputs {
  explicit Inputs(size_t n_rows)
      : x(gaussian(n_rows * kChannels, 1)),
        keys(gaussian(n_rows * 16, 2)),
        queries(gaussian(n_rows * 16, 3)),
        values(gaussian(n_rows * 64, 4)),
        gains(gaussian(n_rows * 4, 5)) {
    for (float& gain : gains) gain = 0.5f + 0.1f * gain;
  }
  std::vector<float> x, keys, queries, values, gains;
};

tensor::Matrix matrix(std::vector<float>& data, size_t n_cols) {
  return {data.data(), data.size() / n_cols, n_cols};
}

class StatesTest : public testing::Test {
 protected:
  static constexpr size_t kFloats = conv_state_floats(kTaps, kChannels) + 4 * 8 * 16;

  StatesTest() : weights(gaussian(kChannels * kTaps, 9)) {}

  std::byte* block(size_t i) { return reinterpret_cast<std::byte*>(blocks[i].data()); }

  // Runs both layers over the rows of `runs`.
  void run(Inputs& in, size_t n_rows, std::span<const StateRun> runs, size_t first_row,
           std::vector<float>& convolved, std::vector<float>& read) {
    const Compute compute{kernels::select_table(), team, arena};
    const auto rows = [&](std::vector<float>& data, size_t n_cols) {
      return tensor::Matrix{data.data() + first_row * n_cols, n_rows, n_cols};
    };
    convolved.resize(n_rows * kChannels);
    read.resize(n_rows * 64);
    conv(compute, {runs, 0}, {.taps = kTaps, .weights = weights.data(), .silu = true},
         rows(in.x, kChannels), matrix(convolved, kChannels));
    linear_state(compute, {runs, conv_state_floats(kTaps, kChannels) * sizeof(float)}, kShape,
                 {.keys = rows(in.keys, 16),
                  .queries = rows(in.queries, 16),
                  .values = rows(in.values, 64),
                  .decays = rows(in.gains, 4),
                  .gains = rows(in.gains, 4),
                  .out = matrix(read, 64)});
  }

  std::vector<float> weights;
  std::vector<std::vector<float>> blocks = std::vector(8, std::vector<float>(kFloats, 7.0f));
  cpu::ThreadTeam team{2};
  tensor::Arena arena;
};

TEST_F(StatesTest, CutsAndStopsKeepEveryBit) {
  constexpr size_t kRows = 12;
  Inputs in(kRows);
  const StateRun::Stop to_end[] = {{kRows, block(0)}};
  const StateRun whole[] = {{.row_begin = 0, .row_end = kRows, .from = nullptr, .stops = to_end}};
  std::vector<float> convolved;
  std::vector<float> read;
  run(in, kRows, whole, 0, convolved, read);
  for (size_t cut = 1; cut < kRows; ++cut) {
    // The first part works in place. The second goes from block to block with a stop between.
    const StateRun::Stop first_stop[] = {{cut, block(1)}};
    const StateRun first[] = {
        {.row_begin = 0, .row_end = cut, .from = nullptr, .stops = first_stop}};
    std::vector<float> part_convolved;
    std::vector<float> part_read;
    run(in, cut, first, 0, part_convolved, part_read);
    const size_t rest = kRows - cut;
    std::vector<StateRun::Stop> stops;
    if (rest > 1) stops.push_back({1, block(1)});  // the block that the run starts from
    stops.push_back({rest, block(2)});
    const StateRun second[] = {{.row_begin = 0, .row_end = rest, .from = block(1), .stops = stops}};
    std::vector<float> rest_convolved;
    std::vector<float> rest_read;
    run(in, rest, second, cut, rest_convolved, rest_read);
    part_convolved.insert(part_convolved.end(), rest_convolved.begin(), rest_convolved.end());
    part_read.insert(part_read.end(), rest_read.begin(), rest_read.end());
    EXPECT_EQ(part_convolved, convolved) << "cut at " << cut;
    EXPECT_EQ(part_read, read) << "cut at " << cut;
    EXPECT_EQ(blocks[2], blocks[0]) << "cut at " << cut;
  }
}

TEST_F(StatesTest, SequencesTogetherEqualSequencesAlone) {
  Inputs in(9);
  const StateRun::Stop ends[] = {{4, block(0)}, {9, block(1)}};
  const StateRun both[] = {
      {.row_begin = 0, .row_end = 4, .from = nullptr, .stops = std::span(ends).first(1)},
      {.row_begin = 4, .row_end = 9, .from = nullptr, .stops = std::span(ends).last(1)}};
  std::vector<float> convolved;
  std::vector<float> read;
  run(in, 9, both, 0, convolved, read);
  const StateRun::Stop end[] = {{5, block(2)}};
  const StateRun alone[] = {{.row_begin = 0, .row_end = 5, .from = nullptr, .stops = end}};
  std::vector<float> alone_convolved;
  std::vector<float> alone_read;
  run(in, 5, alone, 4, alone_convolved, alone_read);
  EXPECT_EQ(std::vector<float>(convolved.begin() + 4 * kChannels, convolved.end()),
            alone_convolved);
  EXPECT_EQ(std::vector<float>(read.begin() + 4 * 64, read.end()), alone_read);
  EXPECT_EQ(blocks[2], blocks[1]);
}

}  // namespace
}  // namespace billow::nn
