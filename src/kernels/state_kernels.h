// Kernels of recurrent layers: each row updates a state and reads from it. Rows are processed in
// order, so a result does not depend on how calls divide the rows. All states are 32-bit floats.
// Kernels take only pointers, sizes and strides, as in kernel_table.h.
#pragma once

#include <cstddef>

namespace billow::kernels {

// Values, or channels, that a kernel processes together.
inline constexpr size_t kStatePanel = 16;
// Max positions that a convolution sees, including its own.
inline constexpr size_t kMaxConvTaps = 8;
// Max values in a channel's state of a selective scan.
inline constexpr size_t kMaxScanStates = 256;

// A matrix S of keys and values. A call processes a panel of 16 values. For each row
//   S := decay S;  u := gain (value - [corrects] key' S);  S := S + key u';  out := query' S.
// With `corrects` this is the gated delta rule (Yang, Kautz and Hatamizadeh, arXiv 2412.06464),
// without it the state space duality of Mamba 2 (Dao and Gu, arXiv 2405.21060).
struct LinearStateArgs {
  float* state = nullptr;  // [n_keys][16]
  size_t n_keys = 0;       // a multiple of 4
  size_t n_rows = 0;
  // Row i is at i * its stride.
  const float* keys = nullptr;  // [n_keys]
  size_t key_stride = 0;
  const float* queries = nullptr;  // [n_keys]
  size_t query_stride = 0;
  const float* values = nullptr;  // [16]
  size_t value_stride = 0;
  const float* decays = nullptr;  // one number, or [n_keys] if decay_by_key
  size_t decay_stride = 0;
  const float* gains = nullptr;  // one number
  size_t gain_stride = 0;
  float* out = nullptr;  // [16]
  size_t out_stride = 0;
  bool corrects = false;
  bool decay_by_key = false;
};

// The same matrix, but a row has separate keys for what it removes and what it writes instead (RWKV
// 7, Peng et al., arXiv 2503.14456). For each row
//   u := removed' S;  S := decay S + key value' - written u';  out := query' S.
struct ReplacingStateArgs {
  float* state = nullptr;  // [n_keys][16]
  size_t n_keys = 0;       // a multiple of 4
  size_t n_rows = 0;
  // Row i is at i * stride; each has [n_keys] values.
  const float* keys = nullptr;
  const float* queries = nullptr;
  const float* decays = nullptr;
  const float* removed = nullptr;
  const float* written = nullptr;
  const float* values = nullptr;  // [16]
  size_t stride = 0;
  float* out = nullptr;  // [16]; row i is at i * stride
};

// The selective scan of Mamba (Gu and Dao, arXiv 2312.00752) for 16 channels. For each row, channel
// c and state n,
//   S[n][c] := exp(step[c] rate[c][n]) S[n][c] + step[c] x[c] in[n];
//   out[c] := skip[c] x[c] + the sum of out_weights[n] S[n][c].
struct ScanArgs {
  float* state = nullptr;  // [n_states][16]
  size_t n_states = 0;     // at most kMaxScanStates
  size_t n_rows = 0;
  const float* rates = nullptr;  // [16][n_states]
  const float* skips = nullptr;  // [16]
  // Row i is at i * its stride.
  const float* steps = nullptr;  // [16]
  size_t step_stride = 0;
  const float* x = nullptr;  // [16]
  size_t x_stride = 0;
  const float* in = nullptr;  // [n_states]
  size_t in_stride = 0;
  const float* out_weights = nullptr;  // [n_states]
  size_t out_weight_stride = 0;
  float* out = nullptr;  // [16]
  size_t out_stride = 0;
};

// A causal convolution of each channel: out row i = bias + the sum of weights[c][t] * x row (i -
// taps + 1 + t). If `silu` is set, out := out * sigmoid(out). Rows before row 0 are in `before`.
struct ConvArgs {
  const float* x = nullptr;  // row i is at i * x_stride
  size_t x_stride = 0;
  const float* before = nullptr;  // [taps - 1] rows, oldest first; null: all 0
  size_t before_stride = 0;
  size_t n_rows = 0;
  size_t n_channels = 0;
  size_t taps = 0;                 // at most kMaxConvTaps
  const float* weights = nullptr;  // [n_channels][taps]
  const float* bias = nullptr;     // [n_channels], or null
  bool silu = false;
  float* out = nullptr;
  size_t out_stride = 0;
};

struct StateKernels {
  void (*linear_state)(const LinearStateArgs&) noexcept;
  void (*replacing_state)(const ReplacingStateArgs&) noexcept;
  void (*scan)(const ScanArgs&) noexcept;
  void (*conv)(const ConvArgs&) noexcept;
  // x[i] = ln(1 + e^x[i])
  void (*softplus)(float* x, size_t n) noexcept;
};

}  // namespace billow::kernels
