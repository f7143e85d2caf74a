// Kernels of recurrent layers: how a state goes on by each row, and what the row reads of it. Rows
// are taken one after the other, so a result does not depend on how rows are cut into calls. All
// states are 32-bit floats. Pointers, sizes and strides only, as in kernel_table.h.
#pragma once

#include <cstddef>

namespace billow::kernels {

// Values, or channels, that a kernel takes side by side.
inline constexpr size_t kStatePanel = 16;
// Positions that a convolution sees, itself included.
inline constexpr size_t kMaxConvTaps = 8;
// Values that a channel's state of a selective scan has.
inline constexpr size_t kMaxScanStates = 256;

// A matrix S of keys and values. A call takes a panel of 16 values. With each row
//   S := decay S;  u := gain (value - [corrects] key' S);  S := S + key u';  out := query' S.
// With `corrects` this is the gated delta rule (Yang, Kautz and Hatamizadeh, arXiv 2412.06464),
// without it the state space duality of Mamba 2 (Dao and Gu, arXiv 2405.21060).
struct LinearStateArgs {
  float* state = nullptr;  // [n_keys][16]
  size_t n_keys = 0;       // a multiple of 4
  size_t n_rows = 0;
  // Of row i at i times the stride.
  const float* keys = nullptr;  // [n_keys]
  size_t key_stride = 0;
  const float* queries = nullptr;  // [n_keys]
  size_t query_stride = 0;
  const float* values = nullptr;  // [16]
  size_t value_stride = 0;
  const float* decays = nullptr;  // one number, or [n_keys] where decay_by_key
  size_t decay_stride = 0;
  const float* gains = nullptr;  // one number
  size_t gain_stride = 0;
  float* out = nullptr;  // [16]
  size_t out_stride = 0;
  bool corrects = false;
  bool decay_by_key = false;
};

// The same matrix where what a row takes out of it, and what it puts in for that, are keys of their
// own (RWKV 7, Peng et al., arXiv 2503.14456). With each row
//   u := removed' S;  S := decay S + key value' - written u';  out := query' S.
struct ReplacingStateArgs {
  float* state = nullptr;  // [n_keys][16]
  size_t n_keys = 0;       // a multiple of 4
  size_t n_rows = 0;
  // Of row i at i * stride, each [n_keys].
  const float* keys = nullptr;
  const float* queries = nullptr;
  const float* decays = nullptr;
  const float* removed = nullptr;
  const float* written = nullptr;
  const float* values = nullptr;  // [16]
  size_t stride = 0;
  float* out = nullptr;  // [16], of row i at i * stride
};

// The selective scan of Mamba (Gu and Dao, arXiv 2312.00752) for 16 channels. With each row, for
// each channel c and state n,
//   S[n][c] := exp(step[c] rate[c][n]) S[n][c] + step[c] x[c] in[n];
//   out[c] := sum of out_weights[n] S[n][c], and skip[c] x[c].
struct ScanArgs {
  float* state = nullptr;  // [n_states][16]
  size_t n_states = 0;     // at most kMaxScanStates
  size_t n_rows = 0;
  const float* rates = nullptr;  // [16][n_states]
  const float* skips = nullptr;  // [16]
  // Of row i at i times the stride.
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

// A causal convolution of each channel by itself: out row i = bias + the sum of weights[c][t] * x
// row (i - taps + 1 + t), then x * sigmoid(x) where `silu`. Rows before row 0 are in `before`.
struct ConvArgs {
  const float* x = nullptr;  // row i at i * x_stride
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
