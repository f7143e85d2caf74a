// Attention within one text with queries, keys, values and weights as BF16, rounded by Bf16, and
// with 32-bit sums by Bf16Dot. Scores add pairs of the head's values in order, outputs add pairs of
// keys in order. A query's scores, weights and output never depend on other queries.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/encoder_softmax.inl.h"
#include "kernels/body/vocabulary.inl.h"
#include "kernels/kernel_table.h"

namespace billow::kernels {
namespace {

// A row of a panel: 16 keys, or 16 values of the head, with two of k each.
constexpr size_t kPairRow = 2 * kTextPanel;

struct Bf16TextPanels {
  uint16_t* keys;     // [n / 16][len / 2][16][2]
  uint16_t* values;   // [len / 16][n / 2][16][2]
  uint16_t* queries;  // [rows][len]
  uint16_t* weights;  // [rows][n]
  float* scores;      // [rows][n]
  size_t n;           // tokens, rounded up
  size_t len;         // length of the head, rounded up
};

inline void store_pairs(uint16_t* to, F even, F odd) noexcept {
  Isa::store_bytes(reinterpret_cast<uint8_t*>(to), Bf16::pairs(even, odd));
}

// Copies n_rows rows of `count` floats, at most 16, into a square of 16 x 16; the rest is 0.
inline void copy_square(const float* from, size_t stride, size_t n_rows, size_t count,
                        float* square) noexcept {
  __builtin_memset(square, 0, kTextPanel * kTextPanel * sizeof(float));
  for (size_t i = 0; i < n_rows; ++i)
    __builtin_memcpy(square + i * kTextPanel, from + i * stride, count * sizeof(float));
}

inline size_t panel_part(size_t begin, size_t end) noexcept {
  const size_t n = begin < end ? end - begin : 0;
  return n < kTextPanel ? n : kTextPanel;
}

inline void pack_bf16_keys(const EncoderAttentionArgs& args,
                           const Bf16TextPanels& panels) noexcept {
  alignas(64) float square[kTextPanel * kTextPanel];
  alignas(64) float turned[kTextPanel * kTextPanel];
  uint16_t* to = panels.keys;
  for (size_t key = 0; key < panels.n; key += kTextPanel) {
    for (size_t d = 0; d < panels.len; d += kTextPanel) {
      copy_square(args.keys + key * args.stride + d, args.stride, panel_part(key, args.n_tokens),
                  panel_part(d, args.head_len), square);
      Isa::transpose_words(reinterpret_cast<const uint8_t*>(square), kTextPanel * sizeof(float),
                           reinterpret_cast<uint8_t*>(turned));
      for (size_t i = 0; i < kTextPanel; i += 2, to += kPairRow)
        for (size_t lane = 0; lane < kTextPanel; lane += Isa::kLanes)
          store_pairs(to + 2 * lane, Isa::load(turned + i * kTextPanel + lane),
                      Isa::load(turned + (i + 1) * kTextPanel + lane));
    }
  }
}

// Reads 16 rows of values at a time, so that all their values are read before the next rows.
inline void pack_bf16_values(const EncoderAttentionArgs& args,
                             const Bf16TextPanels& panels) noexcept {
  alignas(64) float square[kTextPanel * kTextPanel];
  for (size_t key = 0; key < panels.n; key += kTextPanel) {
    for (size_t d = 0; d < panels.len; d += kTextPanel) {
      copy_square(args.values + key * args.stride + d, args.stride, panel_part(key, args.n_tokens),
                  panel_part(d, args.head_len), square);
      uint16_t* to = panels.values + d * panels.n + key * kTextPanel;
      for (size_t i = 0; i < kTextPanel; i += 2, to += kPairRow)
        for (size_t lane = 0; lane < kTextPanel; lane += Isa::kLanes)
          store_pairs(to + 2 * lane, Isa::load(square + i * kTextPanel + lane),
                      Isa::load(square + (i + 1) * kTextPanel + lane));
    }
  }
}

// Rounds R queries; values past the head are 0.
template <size_t R>
inline void pack_bf16_queries(const EncoderAttentionArgs& args, const Bf16TextPanels& panels,
                              size_t query) noexcept {
  alignas(64) float padded[kTextPanel];
  for (size_t r = 0; r < R; ++r) {
    const float* from = args.queries + (query + r) * args.stride;
    for (size_t d = 0; d < panels.len; d += kTextPanel) {
      __builtin_memset(padded, 0, sizeof padded);
      __builtin_memcpy(padded, from + d, panel_part(d, args.head_len) * sizeof(float));
      for (size_t lane = 0; lane < kTextPanel; lane += Isa::kLanes)
        Bf16::store(panels.queries + r * panels.len + d + lane, Isa::load(padded + lane));
    }
  }
}

// acc[v][r] = the sum over pairs of k of a[r] * panel rows from vector v on, pairs in order.
// `panel_rows` is the number of rows of a panel, `a_stride` is in BF16 values.
template <size_t R, size_t V>
[[gnu::always_inline]] inline void bf16_text_products(const uint16_t* a, size_t a_stride,
                                                      const uint16_t* panels, size_t panel_rows,
                                                      size_t v, size_t n_pairs,
                                                      F (&acc)[V][R]) noexcept {
  const uint16_t* b[V];
  for (size_t i = 0; i < V; ++i) {
    const size_t at = (v + i) * Isa::kLanes;
    b[i] = panels + at / kTextPanel * panel_rows * kPairRow + at % kTextPanel * 2;
  }
  for (size_t i = 0; i < V; ++i)
    for (size_t r = 0; r < R; ++r) acc[i][r] = Isa::zero();
  for (size_t pair = 0; pair < n_pairs; ++pair) {
    Isa::Bytes w[V];
    for (size_t i = 0; i < V; ++i)
      w[i] = Isa::load_bytes(reinterpret_cast<const uint8_t*>(b[i] + pair * kPairRow));
    for (size_t r = 0; r < R; ++r) {
      const Isa::Bytes x =
          Isa::broadcast4(reinterpret_cast<const int8_t*>(a + r * a_stride + 2 * pair));
      for (size_t i = 0; i < V; ++i) acc[i][r] = Bf16Dot::dot2(acc[i][r], w[i], x);
    }
  }
}

struct Bf16TextRows {
  const EncoderAttentionArgs& args;
  const Bf16TextPanels& panels;

  // Computes scores of R queries with V vectors of keys from vector v on.
  template <size_t R, size_t V>
  void score(size_t v) const noexcept {
    F acc[V][R];
    bf16_text_products<R, V>(panels.queries, panels.len, panels.keys, panels.len / 2, v,
                             args.head_len / 2, acc);
    for (size_t i = 0; i < V; ++i)
      for (size_t r = 0; r < R; ++r)
        Isa::store(panels.scores + r * panels.n + (v + i) * Isa::kLanes, acc[i][r]);
  }

  // Computes V vectors of the outputs of R queries from vector v on.
  template <size_t R, size_t V>
  void output(size_t v, const float* factors, float* out) const noexcept {
    F acc[V][R];
    bf16_text_products<R, V>(panels.weights, panels.n, panels.values, panels.n / 2, v,
                             (args.n_tokens + 1) / 2, acc);
    for (size_t i = 0; i < V; ++i) {
      const size_t at = (v + i) * Isa::kLanes;
      const size_t left = at < args.head_len ? args.head_len - at : 0;
      const size_t lanes = left < Isa::kLanes ? left : Isa::kLanes;
      if (lanes == 0) continue;
      for (size_t r = 0; r < R; ++r)
        store_lanes(out + r * args.stride + at, acc[i][r] * Isa::set1(factors[r]), lanes);
    }
  }

  // Computes R queries from `query` on.
  template <size_t R>
  void run(size_t query) const noexcept {
    constexpr size_t kVectors = Isa::kPanelVectors;
    pack_bf16_queries<R>(args, panels, query);
    const size_t n_key_vectors = (args.n_tokens + Isa::kLanes - 1) / Isa::kLanes;
    size_t v = 0;
    for (; v + kVectors <= n_key_vectors; v += kVectors) score<R, kVectors>(v);
    for (; v < n_key_vectors; ++v) score<R, 1>(v);
    float factors[R];
    for (size_t r = 0; r < R; ++r) {
      uint16_t* to = panels.weights + r * panels.n;
      factors[r] = text_softmax(panels.scores + r * panels.n, args.n_tokens, args.scale * kLog2E,
                                [to](size_t i, F row) { Bf16::store(to + i, row); });
      if (args.n_tokens % 2 != 0) to[args.n_tokens] = 0;  // the pair of the last key
    }
    float* out = args.outputs + query * args.stride;
    const size_t n_value_vectors = (args.head_len + Isa::kLanes - 1) / Isa::kLanes;
    for (v = 0; v + kVectors <= n_value_vectors; v += kVectors)
      output<R, kVectors>(v, factors, out);
    for (; v < n_value_vectors; ++v) output<R, 1>(v, factors, out);
  }
};

void encoder_attention_bf16(const EncoderAttentionArgs& args) noexcept {
  const size_t n = (args.n_tokens + kTextPanel - 1) / kTextPanel * kTextPanel;
  const size_t len = (args.head_len + kTextPanel - 1) / kTextPanel * kTextPanel;
  // Keys and values as BF16 take half of the floats before the scores. The other half has room for
  // 12 rows of queries and weights: 12 (len + n) <= 2 n len, because n and len are at least 16.
  static_assert(kMaxEncoderAttentionRows <= kTextPanel);
  auto* keys = reinterpret_cast<uint16_t*>(args.scratch);
  const Bf16TextPanels panels = {.keys = keys,
                                 .values = keys + n * len,
                                 .queries = keys + 2 * n * len,
                                 .weights = keys + 2 * n * len + kMaxEncoderAttentionRows * len,
                                 .scores = args.scratch + 2 * n * len,
                                 .n = n,
                                 .len = len};
  pack_bf16_keys(args, panels);
  pack_bf16_values(args, panels);
  for_text_rows<Isa::kFloatGroupRows>(args, Bf16TextRows{args, panels});
}

}  // namespace
}  // namespace billow::kernels
