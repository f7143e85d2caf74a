// Attention within one text with tiles of BF16: 16 queries at a time, with up to 256 keys at a
// time. Each such block of keys gives a partial result. Partial results are merged in order, so
// that a query's output never depends on other queries.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/attention_read.inl.h"
#include "kernels/body/text_squares.inl.h"
#include "kernels/body/vocabulary.inl.h"
#include "kernels/kernel_table.h"

namespace billow::kernels {
namespace {

class TileText {
 public:
  // Takes its parts of args.scratch: keys and values of all tokens, queries of a group, and two
  // partial results of a group.
  explicit TileText(const EncoderAttentionArgs& args) noexcept
      : args_(args),
        len_((args.head_len + kTileKeys - 1) / kTileKeys * kTileKeys),
        n_key_tiles_(key_tiles(args.head_len)) {
    const size_t n_keys = (args.n_tokens + kTileKeys - 1) / kTileKeys;
    const size_t n_values = (args.n_tokens + kTileValues - 1) / kTileValues;
    keys_ = reinterpret_cast<uint16_t*>(args.scratch);
    values_ = keys_ + n_keys * n_key_tiles_ * kTileWords;
    queries_ = values_ + n_values * (len_ / kTileKeys) * kTileWords;
    merged_ = reinterpret_cast<float*>(queries_ + kTileGroupRows * n_key_tiles_ * kTileValues);
    of_block_ = merged_ + kTileGroupRows * partial_floats(len_);
    write_keys(n_keys);
    write_values(n_values);
  }

  // Computes n queries from `first` on, at most 16.
  void attend(size_t first, size_t n) noexcept {
    write_queries(first, n);
    tiles_.set_rows(n);
    const size_t stride = partial_floats(len_);
    for (size_t block = 0; block < args_.n_tokens; block += kSpanPositions) {
      float* const partials = block == 0 ? merged_ : of_block_;
      attend_block(block, n, partials);
      for (size_t r = 0; r < n && block != 0; ++r)
        merge_partial(merged_ + r * stride, of_block_ + r * stride, len_);
    }
    for (size_t r = 0; r < n; ++r) write_row(first + r, merged_ + r * stride);
  }

 private:
  // A square is 16 tokens by 16 values, of keys or queries.
  void write_keys(size_t n_tiles) noexcept {
    alignas(64) float square[kTextPanel * kTextPanel];
    alignas(64) float turned[kTextPanel * kTextPanel];
    for (size_t tile = 0; tile < n_tiles; ++tile) {
      const size_t key = tile * kTileKeys;
      for (size_t d = 0; d < n_key_tiles_ * kTileValues; d += kTextPanel) {
        copy_square(args_.keys + key * args_.stride + d, args_.stride, places(key, args_.n_tokens),
                    places(d, args_.head_len), square);
        turn_square(square, turned);
        uint16_t* const to = keys_ + (tile * n_key_tiles_ + d / kTileValues) * kTileWords +
                             d % kTileValues * kTileKeys;
        for (size_t pair = 0; pair < kTextPanel / 2; ++pair)
          for (size_t lane = 0; lane < kTileKeys; lane += Isa::kLanes)
            store_pairs(to + (pair * kTileKeys + lane) * 2,
                        Isa::load(turned + 2 * pair * kTextPanel + lane),
                        Isa::load(turned + (2 * pair + 1) * kTextPanel + lane));
      }
    }
  }

  void write_values(size_t n_tiles) noexcept {
    const auto load = [&](size_t token, size_t d) {
      const size_t lanes =
          token < args_.n_tokens ? places(d, args_.head_len, Isa::kLanes) : size_t{0};
      return lanes == 0 ? Isa::zero() : load_lanes(args_.values + token * args_.stride + d, lanes);
    };
    uint16_t* to = values_;
    for (size_t tile = 0; tile < n_tiles; ++tile) {
      for (size_t first = 0; first < len_; first += kTileKeys) {
        for (size_t pair = 0; pair < kTileValues / 2; ++pair) {
          const size_t token = tile * kTileValues + 2 * pair;
          for (size_t lane = 0; lane < kTileKeys; lane += Isa::kLanes, to += 2 * Isa::kLanes)
            store_pairs(to, load(token, first + lane), load(token + 1, first + lane));
        }
      }
    }
  }

  void write_queries(size_t first, size_t n) noexcept {
    for (size_t r = 0; r < n; ++r) {
      const float* const from = args_.queries + (first + r) * args_.stride;
      const TileRow row = {queries_ + r * kTileValues, n * kTileValues};
      for (size_t d = 0; d < n_key_tiles_ * kTileValues; d += Isa::kLanes) {
        const size_t lanes = places(d, args_.head_len, Isa::kLanes);
        Bf16::store(row.of(d), lanes == 0 ? Isa::zero() : load_lanes(from + d, lanes));
      }
    }
  }

  void attend_block(size_t block, size_t n, float* partials) noexcept {
    alignas(64) float scores[kTileGroupRows * kSpanPositions];
    alignas(64) uint16_t weights[kTileGroupRows * kSpanPositions];
    const size_t stride = partial_floats(len_);
    const Range seen = {0, places(block, args_.n_tokens, kSpanPositions)};
    const Range keys = seen.in_tiles_of(kTileKeys);
    const size_t key_words = n_key_tiles_ * kTileWords;
    tiles_.multiply(keys.end, n_key_tiles_, queries_, n * kTileValues,
                    keys_ + block / kTileKeys * key_words, kTileWords, key_words, scores,
                    kSpanPositions);
    for (size_t r = 0; r < n; ++r)
      weigh_tiles(keys, seen, args_.scale * kLog2E, 0.0f, scores + r * kSpanPositions,
                  {weights + r * kTileValues, n * kTileValues}, partials + r * stride + len_);
    const size_t value_words = len_ / kTileKeys * kTileWords;
    tiles_.multiply(len_ / kTileKeys, seen.in_tiles_of(kTileValues).end, weights, n * kTileValues,
                    values_ + block / kTileValues * value_words, value_words, kTileWords, partials,
                    stride);
  }

  void write_row(size_t query, const float* partial) const noexcept {
    const F factor = Isa::set1(1.0f / partial[len_ + kSumAt]);
    float* const to = args_.outputs + query * args_.stride;
    for (size_t d = 0; d < args_.head_len; d += Isa::kLanes)
      store_lanes(to + d, Isa::load(partial + d) * factor, places(d, args_.head_len, Isa::kLanes));
  }

  const EncoderAttentionArgs& args_;
  size_t len_;          // values of a head, rounded up to whole tiles
  size_t n_key_tiles_;  // tiles of a key
  uint16_t* keys_;      // as in ReadScratch
  uint16_t* values_;
  uint16_t* queries_;
  float* merged_;
  float* of_block_;
  GroupTiles tiles_;
};

inline void encoder_attention_tiles(const EncoderAttentionArgs& args) noexcept {
  TileText text(args);
  for (size_t query = args.query_begin; query < args.query_end; query += kTileGroupRows)
    text.attend(query, places(query, args.query_end));
}

}  // namespace
}  // namespace billow::kernels
