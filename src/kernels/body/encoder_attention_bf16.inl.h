// Attention within one text with queries, keys, values and weights as BF16, rounded by Bf16, and
// with 32-bit sums by Bf16Dot.
//
// A lane is a query. Queries and weights are vectors, keys and values are broadcast, so that the
// softmax needs no sums across lanes and a head of any multiple of 8 fills all lanes. Keys are
// taken in blocks whose scores and weights fit into the first-level cache. As in FlashAttention
// (Dao et al., arXiv 2205.14135), sums and outputs shrink when a block raises a query's maximum.
//
// Scores add pairs of the head's values in order, outputs add pairs of keys in order. A query's
// scores, weights and output never depend on other queries.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/attention_softmax.inl.h"
#include "kernels/body/bf16_form.inl.h"
#include "kernels/body/math.inl.h"
#include "kernels/body/text_squares.inl.h"
#include "kernels/body/vocabulary.inl.h"
#include "kernels/kernel_table.h"

namespace billow::kernels {
namespace {

// Keys whose scores are computed together, and values of a head whose outputs are.
constexpr size_t kTextRows = 8;
// Vectors of queries that are computed together at most: 24 sums, with 11 loads for a pair.
constexpr size_t kTextVectors = 3;
static_assert(kTextVectors * Isa::kLanes <= kMaxTextQueries);

struct Bf16Text {
  uint16_t* keys;     // [n][head_len]
  uint16_t* values;   // for each block of keys: [head_len][keys of the block]
  uint16_t* queries;  // [head_len / 2][query][2]
  uint16_t* weights;  // [keys of a block / 2][query][2]
  float* scores;      // [keys of a block][query]
  float* outputs;     // [head_len rounded up][query]
  size_t n;           // tokens, rounded up to kTextPanel

  size_t keys_of_block(size_t first) const noexcept {
    return n - first < kTextBlock ? n - first : kTextBlock;
  }
};

inline void round_keys(const EncoderAttentionArgs& args, const Bf16Text& text) noexcept {
  alignas(64) uint16_t last[Isa::kLanes];
  for (size_t key = 0; key < text.n; ++key) {
    const float* from = args.keys + key * args.stride;
    uint16_t* to = text.keys + key * args.head_len;
    if (key >= args.n_tokens) {
      __builtin_memset(to, 0, args.head_len * sizeof(uint16_t));
      continue;
    }
    for_vectors(args.head_len, [&](size_t i, size_t lanes) {
      if (lanes == Isa::kLanes) return Bf16::store(to + i, Isa::load(from + i));
      Bf16::store(last, load_lanes(from + i, lanes));
      __builtin_memcpy(to + i, last, lanes * sizeof(uint16_t));
    });
  }
}

inline void turn_values(const EncoderAttentionArgs& args, const Bf16Text& text) noexcept {
  alignas(64) float square[kTextPanel * kTextPanel];
  alignas(64) float turned[kTextPanel * kTextPanel];
  for (size_t key = 0; key < text.n; key += kTextPanel) {
    const size_t block = key / kTextBlock * kTextBlock;
    const size_t n_keys = text.keys_of_block(block);
    uint16_t* to = text.values + block * args.head_len + (key - block);
    for (size_t d = 0; d < args.head_len; d += kTextPanel) {
      const size_t n_values = places(d, args.head_len);
      copy_square(args.values + key * args.stride + d, args.stride, places(key, args.n_tokens),
                  n_values, square);
      turn_square(square, turned);
      for (size_t i = 0; i < n_values; ++i)
        for (size_t lane = 0; lane < kTextPanel; lane += Isa::kLanes)
          Bf16::store(to + (d + i) * n_keys + lane, Isa::load(turned + i * kTextPanel + lane));
    }
  }
}

// acc[v][r] += the sum over pairs of k of row r of `rows`, times the pairs of vector v, in order.
// Rows are `row_stride` values apart, vectors of the next pair follow V vectors later.
template <size_t V>
[[gnu::always_inline]] inline void add_text_products(const uint16_t* rows, size_t row_stride,
                                                     const uint16_t* vectors, size_t n_pairs,
                                                     F (&acc)[V][kTextRows]) noexcept {
  for (size_t pair = 0; pair < n_pairs; ++pair) {
    Isa::Bytes x[V];
    for (size_t v = 0; v < V; ++v)
      x[v] = Isa::load_bytes(
          reinterpret_cast<const uint8_t*>(vectors + (pair * V + v) * 2 * Isa::kLanes));
    for (size_t r = 0; r < kTextRows; ++r) {
      const Isa::Bytes row =
          Isa::broadcast4(reinterpret_cast<const int8_t*>(rows + r * row_stride + 2 * pair));
      for (size_t v = 0; v < V; ++v) acc[v][r] = Bf16Dot::dot2(acc[v][r], x[v], row);
    }
  }
}

// V vectors of queries, from `query` on. The last vector can have lanes without a query.
template <size_t V>
struct Bf16TextQueries {
  const EncoderAttentionArgs& args;
  const Bf16Text& text;
  size_t query;

  static constexpr size_t kStride = V * Isa::kLanes;

  size_t lanes(size_t v) const noexcept {
    return places(query + v * Isa::kLanes, args.query_end, Isa::kLanes);
  }

  void round_queries() const noexcept {
    alignas(64) float square[kTextPanel * kTextPanel];
    alignas(64) float turned[kTextPanel * kTextPanel];
    for (size_t v = 0; v < V; ++v) {
      for (size_t d = 0; d < args.head_len; d += kTextPanel) {
        const size_t n_values = places(d, args.head_len);
        copy_square(args.queries + (query + v * Isa::kLanes) * args.stride + d, args.stride,
                    lanes(v), n_values, square);
        turn_square(square, turned);
        for (size_t i = 0; i < n_values; i += 2)
          store_pairs(text.queries + ((d + i) / 2 * kStride + v * Isa::kLanes) * 2,
                      Isa::load(turned + i * kTextPanel), Isa::load(turned + (i + 1) * kTextPanel));
      }
    }
  }

  // Computes the scores of a block's tokens and raises the maxima.
  void score(size_t block, size_t n_tokens, F (&maxima)[V]) const noexcept {
    for (size_t key = 0; key < n_tokens; key += kTextRows) {
      F acc[V][kTextRows];
      for (auto& of_vector : acc)
        for (F& sum : of_vector) sum = Isa::zero();
      add_text_products<V>(text.keys + (block + key) * args.head_len, args.head_len, text.queries,
                           args.head_len / 2, acc);
      for (size_t r = 0; r < kTextRows; ++r)
        for (size_t v = 0; v < V; ++v)
          Isa::store(text.scores + (key + r) * kStride + v * Isa::kLanes, acc[v][r]);
      if (key + kTextRows > n_tokens) return raise(key, n_tokens, maxima);
      for (size_t v = 0; v < V; ++v)
        for (size_t r = 0; r < kTextRows; ++r) maxima[v] = Isa::max(maxima[v], acc[v][r]);
    }
  }
  void raise(size_t key, size_t n_tokens, F (&maxima)[V]) const noexcept {
    for (; key < n_tokens; ++key)
      for (size_t v = 0; v < V; ++v)
        maxima[v] = Isa::max(maxima[v], Isa::load(text.scores + key * kStride + v * Isa::kLanes));
  }

  // Computes the weights of a block of keys from its scores, and adds them to the sums. Weights of
  // keys past the last token are 0.
  void weigh(size_t n_tokens, size_t n_keys, const F (&maxima)[V], F (&sums)[V]) const noexcept {
    const F factor = Isa::set1(args.scale * kLog2E);
    for (size_t v = 0; v < V; ++v) {
      const float* scores = text.scores + v * Isa::kLanes;
      uint16_t* weights = text.weights + v * Isa::kLanes * 2;
      F sum = sums[v];
      for (size_t key = 0; key < n_keys; key += 2) {
        F pair[2] = {Isa::zero(), Isa::zero()};
        for (size_t i = 0; i < 2; ++i) {
          if (key + i >= n_tokens) continue;
          pair[i] = exponential2((Isa::load(scores + (key + i) * kStride) - maxima[v]) * factor);
          sum = sum + pair[i];
        }
        store_pairs(weights + key * kStride, pair[0], pair[1]);
      }
      sums[v] = sum;
    }
  }

  // Adds the weighted values of a block of keys to the outputs, which `shrink` multiplies before.
  void add_values(size_t block, size_t n_keys, const F (&shrink)[V]) const noexcept {
    const uint16_t* values = text.values + block * args.head_len;
    for (size_t d = 0; d < args.head_len; d += kTextRows) {
      float* outputs = text.outputs + d * kStride;
      F acc[V][kTextRows];
      for (size_t v = 0; v < V; ++v)
        for (size_t r = 0; r < kTextRows; ++r)
          acc[v][r] = block == 0 ? Isa::zero()
                                 : Isa::load(outputs + r * kStride + v * Isa::kLanes) * shrink[v];
      add_text_products<V>(values + d * n_keys, n_keys, text.weights, n_keys / 2, acc);
      for (size_t v = 0; v < V; ++v)
        for (size_t r = 0; r < kTextRows; ++r)
          Isa::store(outputs + r * kStride + v * Isa::kLanes, acc[v][r]);
    }
  }

  // Divides the outputs by the sums and writes them as rows.
  void write(const F (&sums)[V]) const noexcept {
    alignas(64) float square[kTextPanel * kTextPanel];
    alignas(64) float turned[kTextPanel * kTextPanel];
    for (size_t v = 0; v < V; ++v) {
      const F factor = Isa::set1(1.0f) / sums[v];
      const size_t n = lanes(v);
      for (size_t d = 0; d < args.head_len; d += kTextPanel) {
        const size_t n_values = places(d, args.head_len);
        for (size_t i = 0; i < n_values; ++i)
          Isa::store(square + i * kTextPanel,
                     Isa::load(text.outputs + (d + i) * kStride + v * Isa::kLanes) * factor);
        turn_square(square, turned);
        float* to = args.outputs + (query + v * Isa::kLanes) * args.stride + d;
        for (size_t i = 0; i < n; ++i)
          for (size_t lane = 0; lane < n_values; lane += Isa::kLanes)
            store_lanes(to + i * args.stride + lane, Isa::load(turned + i * kTextPanel + lane),
                        places(lane, n_values, Isa::kLanes));
      }
    }
  }

  void run() const noexcept {
    round_queries();
    F maxima[V];
    F sums[V];
    for (size_t v = 0; v < V; ++v) {
      maxima[v] = Isa::set1(kLowest);
      sums[v] = Isa::zero();
    }
    for (size_t block = 0; block < text.n; block += kTextBlock) {
      const size_t n_keys = text.keys_of_block(block);
      F before[V];
      for (size_t v = 0; v < V; ++v) before[v] = maxima[v];
      const size_t left = args.n_tokens - block;
      const size_t n_tokens = left < n_keys ? left : n_keys;
      score(block, n_tokens, maxima);
      F shrink[V];
      for (size_t v = 0; v < V; ++v) {
        shrink[v] = exponential2((before[v] - maxima[v]) * Isa::set1(args.scale * kLog2E));
        sums[v] = sums[v] * shrink[v];
      }
      weigh(n_tokens, n_keys, maxima, sums);
      add_values(block, n_keys, shrink);
    }
    write(sums);
  }
};

template <size_t V>
inline void text_queries_of(const EncoderAttentionArgs& args, const Bf16Text& text, size_t query,
                            size_t n_vectors) noexcept {
  if (n_vectors == V) return Bf16TextQueries<V>{args, text, query}.run();
  if constexpr (V > 1) text_queries_of<V - 1>(args, text, query, n_vectors);
}

void encoder_attention_bf16(const EncoderAttentionArgs& args) noexcept {
  const size_t n = (args.n_tokens + kTextPanel - 1) / kTextPanel * kTextPanel;
  const size_t len = (args.head_len + kTextPanel - 1) / kTextPanel * kTextPanel;
  const size_t block = n < kTextBlock ? n : kTextBlock;
  // In the order of encoder_attention_scratch_floats(). All parts begin at a multiple of 64 bytes.
  float* const scores = args.scratch;
  float* const outputs = scores + block * kMaxTextQueries;
  auto* const weights = reinterpret_cast<uint16_t*>(outputs + len * kMaxTextQueries);
  uint16_t* const queries = weights + block * kMaxTextQueries;
  uint16_t* const keys = queries + len * kMaxTextQueries;
  const Bf16Text text = {.keys = keys,
                         .values = keys + n * len,
                         .queries = queries,
                         .weights = weights,
                         .scores = scores,
                         .outputs = outputs,
                         .n = n};
  round_keys(args, text);
  turn_values(args, text);
  const size_t n_vectors = (args.query_end - args.query_begin + Isa::kLanes - 1) / Isa::kLanes;
  const RowGroups groups = {n_vectors, (n_vectors + kTextVectors - 1) / kTextVectors};
  for (size_t g = 0; g < groups.n; ++g)
    text_queries_of<kTextVectors>(args, text, args.query_begin + groups.begin(g) * Isa::kLanes,
                                  groups.begin(g + 1) - groups.begin(g));
}

}  // namespace
}  // namespace billow::kernels
