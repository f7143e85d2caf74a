// Recurrent layers over the rows of a batch. A run of rows starts from the state in one block and
// writes states to other blocks. A row's result depends on the earlier rows of its sequence, but
// not on how passes divide them.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/state_kernels.h"
#include "nn/compute.h"
#include "tensor/tensor.h"

namespace billow::nn {

// Adjacent rows [row_begin, row_end) of one sequence.
struct StateRun {
  // The state after the row before row_end is written to this block.
  struct Stop {
    size_t row_end = 0;
    std::byte* block = nullptr;
  };
  size_t row_begin = 0;
  size_t row_end = 0;
  // The block with the initial state; null: the sequence begins here.
  const std::byte* from = nullptr;
  // In ascending order, the last one at row_end. The block of the first stop may be `from`.
  std::span<const Stop> stops = {};
};

// A part of a layer's states: floats at a byte offset in each block.
struct StatePart {
  std::span<const StateRun> runs;
  size_t offset = 0;
};

// The columns of a matrix that hold a row's inputs.
struct Columns {
  Columns() = default;
  // A whole matrix is all of its columns. NOLINTNEXTLINE(google-explicit-constructor)
  Columns(tensor::Matrix whole, size_t begin = 0)
      : data(whole.data + begin), stride(whole.n_cols) {}
  const float* row(size_t i) const noexcept { return data + i * stride; }
  const float* data = nullptr;
  size_t stride = 0;
};

struct Conv {
  size_t taps = 0;
  const float* weights = nullptr;  // [channels][taps]
  const float* bias = nullptr;     // [channels], or null
  bool silu = false;
};
// The state is the inputs of the last taps - 1 rows.
constexpr size_t conv_state_floats(size_t taps, size_t n_channels) {
  return (taps - 1) * n_channels;
}
// kernels::ConvArgs, over the columns of x.
void conv(const Compute& compute, const StatePart& part, const Conv& conv, tensor::Matrix x,
          tensor::Matrix out);

// kernels::LinearStateArgs. In a row, head h has its key and query at key_head(h) * n_keys, and its
// value at h * n_values.
struct LinearState {
  size_t n_heads = 0;   // number of value heads
  size_t n_keys = 0;    // in each head; a multiple of 4
  size_t n_values = 0;  // in each head; a multiple of 16
  size_t n_key_heads = 0;
  bool tiled = false;  // uses key head h % n_key_heads, otherwise h / (n_heads / n_key_heads)
  bool corrects = false;
  bool decay_by_key = false;
  size_t key_head(size_t head) const noexcept {
    return tiled ? head % n_key_heads : head / (n_heads / n_key_heads);
  }
  size_t state_floats() const noexcept { return n_heads * n_keys * n_values; }
};
struct LinearStateRows {
  Columns keys = {};
  Columns queries = {};
  Columns values = {};
  Columns decays = {};  // [n_heads], or [n_heads * n_keys] if decay_by_key
  Columns gains = {};   // [n_heads]
  tensor::Matrix out;   // [n_heads * n_values]
};
void linear_state(const Compute& compute, const StatePart& part, const LinearState& shape,
                  const LinearStateRows& rows);

// kernels::ReplacingStateArgs. Head h has its n_keys keys, and n_keys values, from h * n_keys on.
struct ReplacingState {
  size_t n_heads = 0;
  size_t n_keys = 0;  // in each head; a multiple of 16
  size_t state_floats() const noexcept { return n_heads * n_keys * n_keys; }
};
struct ReplacingStateRows {  // each [n_heads * n_keys]
  tensor::Matrix keys;
  tensor::Matrix queries;
  tensor::Matrix values;
  tensor::Matrix decays;
  tensor::Matrix removed;
  tensor::Matrix written;
  tensor::Matrix out;
};
void replacing_state(const Compute& compute, const StatePart& part, const ReplacingState& shape,
                     const ReplacingStateRows& rows);

// kernels::ScanArgs, for all channels.
struct Scan {
  size_t n_channels = 0;  // a multiple of 16
  size_t n_states = 0;
  const float* rates = nullptr;  // [n_channels][n_states]
  const float* skips = nullptr;  // [n_channels]
  size_t state_floats() const noexcept { return n_channels * n_states; }
};
struct ScanRows {
  Columns steps = {};  // [n_channels]
  Columns x = {};      // [n_channels]
  Columns in = {};     // [n_states]
  Columns out_weights = {};
  tensor::Matrix out;  // [n_channels]
};
void scan(const Compute& compute, const StatePart& part, const Scan& shape, const ScanRows& rows);

// x = ln(1 + e^x)
void softplus(const Compute& compute, tensor::Matrix x);

}  // namespace billow::nn
