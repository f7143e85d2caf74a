// Attention within one text. Keys and values are copied into panels of 16 floats by k, so that both
// products read memory in order. A query's scores, weights and output never depend on other
// queries.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/attention_softmax.inl.h"
#include "kernels/body/math.inl.h"
#include "kernels/kernel_table.h"

namespace billow::kernels {
namespace {

// Packs keys [n][len] as panels of 16 keys: [n / 16][len rounded up][16].
inline void pack_text_keys(const EncoderAttentionArgs& args, size_t n, size_t len,
                           float* out) noexcept {
  alignas(64) float edge[kTextPanel * kTextPanel];
  for (size_t key = 0; key < n; key += kTextPanel) {
    for (size_t d = 0; d < len; d += kTextPanel, out += kTextPanel * kTextPanel) {
      const float* from = args.keys + key * args.stride + d;
      size_t stride = args.stride;
      if (key + kTextPanel > args.n_tokens || d + kTextPanel > args.head_len) {
        const size_t n_keys = args.n_tokens - key < kTextPanel ? args.n_tokens - key : kTextPanel;
        const size_t n_left = args.head_len - d < kTextPanel ? args.head_len - d : kTextPanel;
        __builtin_memset(edge, 0, sizeof edge);
        for (size_t i = 0; i < n_keys; ++i)
          __builtin_memcpy(edge + i * kTextPanel, from + i * stride, n_left * sizeof(float));
        from = edge;
        stride = kTextPanel;
      }
      Isa::transpose_words(reinterpret_cast<const uint8_t*>(from), stride * sizeof(float),
                           reinterpret_cast<uint8_t*>(out));
    }
  }
}

// Packs values [n][len] as panels of 16 of len: [len / 16][n rounded up][16].
inline void pack_text_values(const EncoderAttentionArgs& args, size_t n, size_t len,
                             float* out) noexcept {
  for (size_t d = 0; d < len; d += Isa::kLanes) {
    float* to = out + d / kTextPanel * n * kTextPanel + d % kTextPanel;
    const size_t left = d < args.head_len ? args.head_len - d : 0;
    const size_t lanes = left < Isa::kLanes ? left : Isa::kLanes;
    if (lanes == 0) continue;
    for (size_t i = 0; i < args.n_tokens; ++i)
      Isa::store(to + i * kTextPanel, load_lanes(args.values + i * args.stride + d, lanes));
  }
}

// acc[v][r] = the sum over k of a[r][k] * b[v][k], k in order.
template <size_t R, size_t V>
[[gnu::always_inline]] inline void text_products(const float* a, size_t a_stride,
                                                 const float* const (&b)[V], size_t k,
                                                 F (&acc)[V][R]) noexcept {
  for (size_t v = 0; v < V; ++v)
    for (size_t r = 0; r < R; ++r) acc[v][r] = Isa::zero();
  for (size_t i = 0; i < k; ++i) {
    F w[V];
    for (size_t v = 0; v < V; ++v) w[v] = Isa::load(b[v] + i * kTextPanel);
    for (size_t r = 0; r < R; ++r) {
      const F x = Isa::set1(a[r * a_stride + i]);
      for (size_t v = 0; v < V; ++v) acc[v][r] = Isa::fma(w[v], x, acc[v][r]);
    }
  }
}

// Replaces the scores by weights, not yet divided by their sum. Weights past the last token are 0.
// Returns the factor that makes their sum 1. `factor` is the factor of scores times log2 e.
inline float text_softmax(float* scores, size_t n_tokens, float factor) noexcept {
  F largest = Isa::set1(kLowest);
  for_vectors(n_tokens, [&](size_t i, size_t lanes) {
    F score = Isa::load(scores + i);
    if (lanes < Isa::kLanes) score = Isa::keep_first(score, lanes, Isa::set1(kLowest));
    largest = Isa::max(largest, score);
  });
  const F maximum = Isa::set1(Isa::largest(largest));
  F sum = Isa::zero();
  for_vectors(n_tokens, [&](size_t i, size_t lanes) {
    F weight = exponential2((Isa::load(scores + i) - maximum) * Isa::set1(factor));
    if (lanes < Isa::kLanes) weight = Isa::keep_first(weight, lanes, Isa::zero());
    Isa::store(scores + i, weight);
    sum = sum + weight;
  });
  return 1.0f / Isa::sum(sum);
}

// Calls rows.run<n>(query) for the queries in groups of at most R. Groups have nearly equal sizes,
// because a last group of few rows would use the processor badly.
template <size_t R, class Rows>
inline void text_rows_of(size_t query, size_t n, Rows rows) noexcept {
  if (n == R) return rows.template run<R>(query);
  if constexpr (R > 1) text_rows_of<R - 1>(query, n, rows);
}
template <size_t R, class Rows>
inline void for_text_rows(const EncoderAttentionArgs& args, Rows rows) noexcept {
  static_assert(R <= kMaxEncoderAttentionRows);
  const size_t n = args.query_end - args.query_begin;
  const RowGroups groups = {n, (n + R - 1) / R};
  for (size_t g = 0; g < groups.n; ++g) {
    const size_t begin = groups.begin(g);
    text_rows_of<R>(args.query_begin + begin, groups.begin(g + 1) - begin, rows);
  }
}

// Returns vector `v` of panels of panel_rows rows.
inline const float* text_vector(const float* panels, size_t panel_rows, size_t v) noexcept {
  const size_t at = v * Isa::kLanes;
  return panels + at / kTextPanel * panel_rows * kTextPanel + at % kTextPanel;
}

// Computes the dot products of R queries with V vectors of keys from vector v on.
template <size_t R, size_t V>
inline void text_scores(const float* queries, size_t stride, size_t head_len, size_t len,
                        const float* keys, size_t v, float* scores, size_t n) noexcept {
  const float* b[V];
  for (size_t i = 0; i < V; ++i) b[i] = text_vector(keys, len, v + i);
  F acc[V][R];
  text_products<R, V>(queries, stride, b, head_len, acc);
  for (size_t i = 0; i < V; ++i)
    for (size_t r = 0; r < R; ++r) Isa::store(scores + r * n + (v + i) * Isa::kLanes, acc[i][r]);
}

// Computes V vectors of the outputs of R queries from vector v on.
template <size_t R, size_t V>
inline void text_outputs(const EncoderAttentionArgs& args, const float* weights, size_t n,
                         const float* factors, const float* values, size_t v, float* out) noexcept {
  const float* b[V];
  for (size_t i = 0; i < V; ++i) b[i] = text_vector(values, n, v + i);
  F acc[V][R];
  text_products<R, V>(weights, n, b, args.n_tokens, acc);
  for (size_t i = 0; i < V; ++i) {
    const size_t at = (v + i) * Isa::kLanes;
    const size_t left = at < args.head_len ? args.head_len - at : 0;
    const size_t lanes = left < Isa::kLanes ? left : Isa::kLanes;
    if (lanes == 0) continue;
    for (size_t r = 0; r < R; ++r)
      store_lanes(out + r * args.stride + at, acc[i][r] * Isa::set1(factors[r]), lanes);
  }
}

struct TextPanels {
  const float* keys;
  const float* values;
  float* scores;
  size_t n;    // tokens, rounded up
  size_t len;  // length of the head, rounded up
};

struct TextRows {
  const EncoderAttentionArgs& args;
  const TextPanels& panels;

  // Computes R queries from `query` on.
  template <size_t R>
  void run(size_t query) const noexcept {
    constexpr size_t kVectors = Isa::kPanelVectors;
    const float* queries = args.queries + query * args.stride;
    const size_t n_key_vectors = (args.n_tokens + Isa::kLanes - 1) / Isa::kLanes;
    size_t v = 0;
    for (; v + kVectors <= n_key_vectors; v += kVectors)
      text_scores<R, kVectors>(queries, args.stride, args.head_len, panels.len, panels.keys, v,
                               panels.scores, panels.n);
    for (; v < n_key_vectors; ++v)
      text_scores<R, 1>(queries, args.stride, args.head_len, panels.len, panels.keys, v,
                        panels.scores, panels.n);
    float factors[R];
    for (size_t r = 0; r < R; ++r)
      factors[r] = text_softmax(panels.scores + r * panels.n, args.n_tokens, args.scale * kLog2E);
    float* out = args.outputs + query * args.stride;
    const size_t n_value_vectors = (args.head_len + Isa::kLanes - 1) / Isa::kLanes;
    for (v = 0; v + kVectors <= n_value_vectors; v += kVectors)
      text_outputs<R, kVectors>(args, panels.scores, panels.n, factors, panels.values, v, out);
    for (; v < n_value_vectors; ++v)
      text_outputs<R, 1>(args, panels.scores, panels.n, factors, panels.values, v, out);
  }
};

void encoder_attention(const EncoderAttentionArgs& args) noexcept {
  const size_t n = (args.n_tokens + kTextPanel - 1) / kTextPanel * kTextPanel;
  const size_t len = (args.head_len + kTextPanel - 1) / kTextPanel * kTextPanel;
  float* keys = args.scratch;
  float* values = keys + n * len;
  pack_text_keys(args, n, len, keys);
  pack_text_values(args, n, len, values);
  const TextPanels panels = {keys, values, values + n * len, n, len};
  for_text_rows<Isa::kFloatGroupRows>(args, TextRows{args, panels});
}

}  // namespace
}  // namespace billow::kernels
