// Attention of rows that are read, with tiles of BF16. Up to 16 rows are a group. For one span,
// keys and values are decoded to BF16 once and used by all groups. A group's scores of the whole
// span are computed first, then its softmax, then its outputs. So no sum shrinks within a span.
//
// A row's scores, weights and output do not depend on other rows: a position that only other rows
// see has the weight 0. If a value of a span is not finite, each row of the span is a separate
// group, because 0 times such a value is not 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/body/attention.inl.h"
#include "kernels/body/bf16_form.inl.h"
#include "kernels/body/tile_shapes.inl.h"
#include "kernels/body/vocabulary.inl.h"
#include "kernels/kernel_table.h"

namespace billow::kernels {
namespace {

constexpr size_t kTileKeys = 16;    // keys of a tile
constexpr size_t kTileValues = 32;  // positions of a tile of values, or values of a tile of keys
constexpr size_t kTileWords = 512;  // BF16 numbers of a tile

constexpr size_t key_tiles(size_t k_len) { return (k_len + kTileValues - 1) / kTileValues; }

// The parts of a call's scratch memory. Each tile is contiguous. A tile of keys has 16 rows of
// pairs of a key's values, a tile of values has 16 rows of pairs of positions.
struct ReadScratch {
  ReadScratch(const AttentionArgs& args, size_t n_rows) noexcept {
    auto* at = args.scratch;
    const auto take = [&](size_t n_floats) {
      float* const from = at;
      at += n_floats;
      return from;
    };
    queries = reinterpret_cast<uint16_t*>(take(n_rows * args.k_len));
    partials = take(2 * n_rows * partial_floats(args.v_len));
    keys = reinterpret_cast<uint16_t*>(
        take(kSpanPositions / kTileKeys * key_tiles(args.k_len) * kTileWords / 2));
    values = reinterpret_cast<uint16_t*>(take(kSpanPositions * args.v_len / 2));
    scores = take(kTileGroupRows * kSpanPositions);
    weights = reinterpret_cast<uint16_t*>(take(kTileGroupRows * kSpanPositions / 2));
  }
  uint16_t* queries;  // [group][tile of a key][row][32]
  float* partials;    // of all rows, twice
  uint16_t* keys;     // [16 keys][tile of a key][16 pairs][16 keys][2]
  uint16_t* values;   // [32 positions][16 values][16 pairs][16 values][2]
  float* scores;      // [row][position of the span]
  uint16_t* weights;  // [32 positions][row][32]
};

// A range of positions, or of tiles.
struct Range {
  size_t begin = SIZE_MAX;
  size_t end = 0;
  bool empty() const noexcept { return begin >= end; }
  void include(size_t other_begin, size_t other_end) noexcept {
    begin = other_begin < begin ? other_begin : begin;
    end = other_end > end ? other_end : end;
  }
  // Returns this range within a span, counted from the span's first position.
  Range within(size_t span) const noexcept {
    const size_t start = span * kSpanPositions;
    const auto limit = [&](size_t position) {
      if (position <= start) return size_t{0};
      return position - start < kSpanPositions ? position - start : kSpanPositions;
    };
    return {limit(begin), limit(end)};
  }
  Range in_tiles_of(size_t n) const noexcept { return {begin / n, (end + n - 1) / n}; }
};

inline Range seen_by(const AttentionArgs& args, size_t row) noexcept {
  const size_t token = row / args.n_heads;
  return {args.first[token], size_t{args.last[token]} + 1};
}

// Return the first and the second codes of pairs of 16-bit codes, as floats.
inline F low_words(Isa::Bytes words) noexcept {
  constexpr int16_t kLow[2] = {1, 0};
  return Isa::to_float(
      Isa::dot2(Isa::ints(0), words, Isa::broadcast4(reinterpret_cast<const int8_t*>(kLow))));
}
inline F high_words(Isa::Bytes words) noexcept {
  constexpr int16_t kHigh[2] = {0, 1};
  return Isa::to_float(
      Isa::dot2(Isa::ints(0), words, Isa::broadcast4(reinterpret_cast<const int8_t*>(kHigh))));
}

// Decodes the keys of a vector of positions from `at` on. put(pair, even, odd) takes values
// 2 * pair and 2 * pair + 1 of the keys.
template <class Put>
inline void decode_keys16(const std::byte* block, size_t k_len, size_t at, Put put) noexcept {
  const auto* codes = reinterpret_cast<const uint8_t*>(block);
  const auto* scales =
      reinterpret_cast<const uint16_t*>(block + kv_code_bytes(KvType::kInt16, k_len));
  const F scale = Isa::load_bf16(scales + at);
  for (size_t pair = 0; pair < k_len / 2; ++pair) {
    const Isa::Bytes words = Isa::load_bytes(codes + (pair * kBlockPositions + at) * 4);
    put(pair, low_words(words) * scale, high_words(words) * scale);
  }
}

template <class Put>
inline void put_quad(size_t quad, Isa::Bytes codes, F scale, Put put) noexcept {
  F values[4];
  for (unsigned j = 0; j < 4; ++j) values[j] = Isa::to_float(Isa::signed_byte(codes, j)) * scale;
  put(2 * quad, values[0], values[1]);
  put(2 * quad + 1, values[2], values[3]);
}

// The same for keys in codes of 8 or 4 bits.
template <class Keys, class Put>
inline void decode_keys8(const std::byte* block, size_t k_len, size_t at, Put put) noexcept {
  constexpr auto kBias = static_cast<uint8_t>(Keys::kBias);
  const auto* codes = reinterpret_cast<const uint8_t*>(block);
  const auto* scales = reinterpret_cast<const uint16_t*>(block + kv_code_bytes(Keys::kType, k_len));
  for (size_t pair = 0; pair < k_len / 8; ++pair) {
    const F scale = Isa::load_f16(scales + pair * 8 / kKvGroup * kBlockPositions + at);
    put_quad(2 * pair, Keys::template at<0>(codes, pair, at) - kBias, scale, put);
    put_quad(2 * pair + 1, Keys::template at<1>(codes, pair, at) - kBias, scale, put);
  }
}

// Decodes the keys of a tile, from position `at` of a block on, to `tiles`.
inline void decode_key_tiles(const AttentionArgs& args, const std::byte* block, size_t at,
                             uint16_t* tiles) noexcept {
  for (size_t lane = 0; lane < kTileKeys; lane += Isa::kLanes) {
    uint16_t* const to = tiles + lane * 2;
    const auto put = [&](size_t pair, F even, F odd) {
      store_pairs(to + pair * 2 * kTileKeys, even, odd);
    };
    if (args.types.k == KvType::kInt16) {
      decode_keys16(block, args.k_len, at + lane, put);
    } else if (args.types.k == KvType::kQ8_0) {
      decode_keys8<KeyCodes8>(block, args.k_len, at + lane, put);
    } else {
      decode_keys8<KeyCodes4>(block, args.k_len, at + lane, put);
    }
    for (size_t pair = args.k_len / 2; pair < key_tiles(args.k_len) * kTileKeys; ++pair)
      put(pair, Isa::zero(), Isa::zero());
  }
}

// Decodes the values of a block to its two rows of tiles. Positions outside `seen` become 0.
// Returns 0, or a number that is not finite if a value is not finite.
template <class Values>
inline F decode_value_tiles(const Values& values, const Range& seen, uint16_t* tiles) noexcept {
  constexpr size_t kPairsOfTile = kTileValues / 2;
  const size_t v_len = values.v_len;
  const auto is_seen = [&](size_t position) {
    return position >= seen.begin && position < seen.end;
  };
  F check = Isa::zero();
  const uint16_t* coded_scales = values.scales();
  for (size_t first = 0; first < v_len; first += values.group(), coded_scales += kBlockPositions) {
    const size_t end = first + values.group() < v_len ? first + values.group() : v_len;
    float scales[kBlockPositions];
    for (size_t at = 0; at < kBlockPositions; at += Isa::kLanes)
      Isa::store(scales + at, Values::load_scales(coded_scales + at));
    for (size_t pair = 0; pair < kBlockPositions / 2; ++pair) {
      uint16_t* const row = tiles + pair / kPairsOfTile * (v_len / kTileKeys) * kTileWords +
                            pair % kPairsOfTile * 2 * kTileKeys;
      for (size_t dim = first; dim < end; dim += Isa::kLanes) {
        const Isa::Bytes words = values.at(pair, dim);
        F even = low_words(words) * Isa::set1(scales[2 * pair]);
        F odd = high_words(words) * Isa::set1(scales[2 * pair + 1]);
        if (!is_seen(2 * pair)) even = Isa::zero();
        if (!is_seen(2 * pair + 1)) odd = Isa::zero();
        check = Isa::fma(even + odd, Isa::zero(), check);
        store_pairs(row + dim / kTileKeys * kTileWords + dim % kTileKeys * 2, even, odd);
      }
    }
  }
  return check;
}

// The products of a group with up to four tiles at the same time. A is tile 4, its rows are the
// group's.
class GroupTiles {
 public:
  static constexpr size_t kAtOnce = 4;

  // Sets the number of rows of groups.
  void set_rows(size_t n_rows) noexcept {
    if (n_rows == n_rows_) return;
    n_rows_ = n_rows;
    const auto rows = static_cast<uint8_t>(n_rows);
    constexpr TileShape kWhole = {16, 64};
    const TileShape own = {rows, 64};
    tiles_.configure({own, own, own, own, own, kWhole, kWhole, kWhole});
  }

  // out[row][16 * i ...] = the sum over n tiles of A times tile i of `b`. Tiles of A are a_words
  // apart. Tiles of `b` with the same i are b_words apart, those of adjacent i are i_words apart.
  void multiply(size_t n_columns, size_t n, const uint16_t* a, size_t a_words, const uint16_t* b,
                size_t b_words, size_t i_words, float* out, size_t out_stride) noexcept {
    for (size_t i = 0; i < n_columns; i += kAtOnce) {
      const size_t left = n_columns - i;
      const auto some = [&](auto count) {
        multiply_some<decltype(count)::value>(n, a, a_words, b + i * i_words, b_words, i_words,
                                              out + i * kTileKeys, out_stride);
      };
      if (left >= 4)
        some(std::integral_constant<size_t, 4>());
      else if (left == 3)
        some(std::integral_constant<size_t, 3>());
      else if (left == 2)
        some(std::integral_constant<size_t, 2>());
      else
        some(std::integral_constant<size_t, 1>());
    }
  }

 private:
  template <size_t N>
  void multiply_some(size_t n, const uint16_t* a, size_t a_words, const uint16_t* b, size_t b_words,
                     size_t i_words, float* out, size_t out_stride) noexcept {
    tiles_.zero<0>();
    if constexpr (N > 1) tiles_.zero<1>();
    if constexpr (N > 2) tiles_.zero<2>();
    if constexpr (N > 3) tiles_.zero<3>();
    for (size_t k = 0; k < n; ++k, a += a_words, b += b_words) {
      tiles_.load<4>(a, 64);
      tiles_.load<5>(b, 64);
      tiles_.dot_bf16<0, 4, 5>();
      if constexpr (N > 1) {
        tiles_.load<6>(b + i_words, 64);
        tiles_.dot_bf16<1, 4, 6>();
      }
      if constexpr (N > 2) {
        tiles_.load<7>(b + 2 * i_words, 64);
        tiles_.dot_bf16<2, 4, 7>();
      }
      if constexpr (N > 3) {
        tiles_.load<5>(b + 3 * i_words, 64);
        tiles_.dot_bf16<3, 4, 5>();
      }
    }
    const size_t bytes = out_stride * sizeof(float);
    tiles_.store<0>(out, bytes);
    if constexpr (N > 1) tiles_.store<1>(out + kTileKeys, bytes);
    if constexpr (N > 2) tiles_.store<2>(out + 2 * kTileKeys, bytes);
    if constexpr (N > 3) tiles_.store<3>(out + 3 * kTileKeys, bytes);
  }

  Tiles tiles_;
  size_t n_rows_ = 0;
};

// A row of A: each 32 values of a tile, tiles tile_words apart.
struct TileRow {
  uint16_t* at;
  size_t tile_words;
  uint16_t* of(size_t value) const noexcept {
    return at + value / kTileValues * tile_words + value % kTileValues;
  }
};

// Turns a row's scores of some keys, times `factor`, into weights 2^(score - maximum).
// `tiles`: the tiles of keys that have scores. The row sees the keys in `seen`; weights of other
// keys are 0, also of keys that share a tile of 32 values with these. Writes the max score and the
// sum of weights to `tail`.
inline void weigh_tiles(const Range& tiles, const Range& seen, float factor, float softcap,
                        float* scores, const TileRow& weights, float* tail) noexcept {
  const size_t begin = tiles.begin * kTileKeys;
  const size_t end = tiles.end * kTileKeys;
  const auto clear = [&](size_t from, size_t to) {
    for (size_t at = from; at < to; at += Isa::kLanes) Bf16::store(weights.of(at), Isa::zero());
  };
  clear(begin / kTileValues * kTileValues, begin);
  clear(end, (end + kTileValues - 1) / kTileValues * kTileValues);
  if (seen.empty()) return clear(begin, end);
  const F lowest = Isa::set1(kLowest);
  F largest = lowest;
  for (size_t at = begin; at < end; at += Isa::kLanes) {
    F score = Isa::load(scores + at) * Isa::set1(factor);
    if (softcap > 0.0f) score = Isa::set1(softcap * kLog2E) * hyperbolic_tangent(score);
    score = only_visible(score, at, seen.begin, seen.end, lowest);
    Isa::store(scores + at, score);
    largest = Isa::max(largest, score);
  }
  const float maximum = Isa::largest(largest);
  F sum = Isa::zero();
  for (size_t at = begin; at < end; at += Isa::kLanes) {
    F weight = exponential2(Isa::load(scores + at) - Isa::set1(maximum));
    weight = only_visible(weight, at, seen.begin, seen.end, Isa::zero());
    Bf16::store(weights.of(at), weight);
    sum = sum + weight;
  }
  tail[kMaximumAt] = maximum;
  tail[kSumAt] = Isa::sum(sum);
}

// The rows of a call as groups of up to 16.
class ReadRows {
 public:
  explicit ReadRows(const AttentionArgs& args) noexcept
      : args_(args), n_rows_(args.n_tokens * args.n_heads), scratch_(args, n_rows_) {
    const size_t n_tiles = key_tiles(args.k_len);
    uint16_t* group = scratch_.queries;
    for (size_t row = 0; row < n_rows_; row += kTileGroupRows) {
      const size_t n = rows_of_group(row);
      for (size_t r = 0; r < n; ++r) write_query(row + r, n, group + r * kTileValues);
      group += n_tiles * n * kTileValues;
    }
    for (size_t row = 0; row < n_rows_; ++row) {
      const Range seen = seen_by(args, row);
      seen_.include(seen.begin, seen.end);
    }
  }
  size_t n_rows() const noexcept { return n_rows_; }
  float* partials() const noexcept { return scratch_.partials; }

  // Computes the partial results of one span.
  void attend_span(size_t span, float* partials) noexcept {
    const Range seen = seen_.within(span);
    if (!seen.empty()) decode_keys(span, seen);
    const bool finite = seen.empty() || decode_values(span, seen);
    const uint16_t* queries = scratch_.queries;
    for (size_t row = 0; row < n_rows_; row += kTileGroupRows) {
      const size_t n = rows_of_group(row);
      const Group group = {row, n, queries, n * kTileValues};
      if (finite) {
        attend_group(span, group, partials);
      } else {
        attend_rows(span, group, partials);
      }
      queries += key_tiles(args_.k_len) * n * kTileValues;
    }
  }

 private:
  // Adjacent rows with their packed queries. The queries' tiles are tile_words apart.
  struct Group {
    size_t first;
    size_t n;
    const uint16_t* queries;
    size_t tile_words;
  };

  size_t rows_of_group(size_t first_row) const noexcept {
    return n_rows_ - first_row < kTileGroupRows ? n_rows_ - first_row : kTileGroupRows;
  }

  // Writes a query of a group of n rows: rounded, and rotated if the keys are.
  void write_query(size_t row, size_t n, uint16_t* out) const noexcept {
    const float* const from = args_.queries + row / args_.n_heads * args_.query_stride +
                              row % args_.n_heads * args_.k_len;
    const F factor = Isa::set1(query_factor(args_));
    const bool rotated = args_.types.k == KvType::kQ8_0 || args_.types.k == KvType::kQ4_0;
    for (size_t at = 0; at < args_.k_len; at += kKvGroup, out += n * kTileValues) {
      const size_t n_values = args_.k_len - at < kKvGroup ? args_.k_len - at : kKvGroup;
      float group[kKvGroup] = {};
      if (rotated) {
        (n_values == kKvGroup ? rotate_group<kKvGroup> : rotate_group<16>)(from + at, group);
      } else {
        __builtin_memcpy(group, from + at, n_values * sizeof(float));
      }
      for (size_t i = 0; i < kKvGroup; i += Isa::kLanes)
        Bf16::store(out + i, Isa::load(group + i) * factor);
    }
  }

  // Calls use(block, start, here) for each block of a span with a position in `seen`. The block has
  // positions from `start` on, and `here` is `seen` within the block.
  template <class Use>
  void each_block(size_t span, const Range& seen, Use use) const noexcept {
    for (size_t start = seen.begin / kBlockPositions * kBlockPositions; start < seen.end;
         start += kBlockPositions) {
      const size_t block = (span * kSpanPositions + start) / kBlockPositions;
      use(args_.base + args_.block_ids[block] * args_.block_bytes, start,
          Range{within_block(seen.begin, start), within_block(seen.end, start)});
    }
  }

  void decode_keys(size_t span, const Range& seen) noexcept {
    const size_t words = key_tiles(args_.k_len) * kTileWords;
    each_block(span, seen, [&](const std::byte* block, size_t start, const Range& here) {
      const Range keys = here.in_tiles_of(kTileKeys);
      for (size_t tile = keys.begin; tile < keys.end; ++tile)
        decode_key_tiles(args_, block + args_.k_offset, tile * kTileKeys,
                         scratch_.keys + (start / kTileKeys + tile) * words);
    });
  }

  // Returns whether all values are finite.
  bool decode_values(size_t span, const Range& seen) noexcept {
    const size_t v_len = args_.v_len;
    F check = Isa::zero();
    each_block(span, seen, [&](const std::byte* block, size_t start, const Range& here) {
      const std::byte* const v = block + args_.v_offset;
      uint16_t* const to = scratch_.values + start / kTileValues * (v_len / kTileKeys) * kTileWords;
      if (args_.types.v == KvType::kInt16) {
        check = check + decode_value_tiles(ValueCodes16{v, v_len}, here, to);
      } else if (args_.types.v == KvType::kQ8_0) {
        check = check + decode_value_tiles(ValueCodes8{v, v_len}, here, to);
      } else {
        check = check + decode_value_tiles(ValueCodes4{v, v_len}, here, to);
      }
    });
    return Isa::sum(check) == 0.0f;
  }

  // Attends to the span's values that each row of the group sees by itself.
  void attend_rows(size_t span, const Group& group, float* partials) noexcept {
    for (size_t r = 0; r < group.n; ++r) {
      const Range seen = seen_by(args_, group.first + r).within(span);
      if (!seen.empty()) decode_values(span, seen);
      attend_group(span, {group.first + r, 1, group.queries + r * kTileValues, group.tile_words},
                   partials);
    }
  }

  // partials: those of all rows.
  void attend_group(size_t span, const Group& group, float* partials) noexcept {
    const size_t n = group.n;
    const size_t stride = partial_floats(args_.v_len);
    partials += group.first * stride;
    Range seen;
    for (size_t r = 0; r < n; ++r) {
      clear_partial(partials + r * stride, args_.v_len);
      const Range own = seen_by(args_, group.first + r).within(span);
      if (!own.empty()) seen.include(own.begin, own.end);
    }
    if (seen.empty()) return;
    tiles_.set_rows(n);
    const size_t n_tiles = key_tiles(args_.k_len);
    const Range keys = seen.in_tiles_of(kTileKeys);
    const size_t key_words = n_tiles * kTileWords;
    tiles_.multiply(keys.end - keys.begin, n_tiles, group.queries, group.tile_words,
                    scratch_.keys + keys.begin * key_words, kTileWords, key_words,
                    scratch_.scores + keys.begin * kTileKeys, kSpanPositions);
    const Range values = seen.in_tiles_of(kTileValues);
    for (size_t r = 0; r < n; ++r) {
      float* const scores = scratch_.scores + r * kSpanPositions;
      const size_t row = group.first + r;
      if (args_.slopes != nullptr)
        add_distance(scores, keys.begin * kTileKeys, keys.end * kTileKeys, span * kSpanPositions,
                     args_.positions[row / args_.n_heads],
                     args_.slopes[row % args_.n_heads] * kLog2E);
      weigh_tiles(keys, seen_by(args_, row).within(span), 1.0f, args_.softcap, scores,
                  {scratch_.weights + r * kTileValues, n * kTileValues},
                  partials + r * stride + args_.v_len);
    }
    const size_t value_words = args_.v_len / kTileKeys * kTileWords;
    tiles_.multiply(args_.v_len / kTileKeys, values.end - values.begin,
                    scratch_.weights + values.begin * n * kTileValues, n * kTileValues,
                    scratch_.values + values.begin * value_words, value_words, kTileWords, partials,
                    stride);
  }

  const AttentionArgs& args_;
  size_t n_rows_;
  ReadScratch scratch_;
  Range seen_;  // by any row
  GroupTiles tiles_;
};

inline void read_attention(const AttentionArgs& args) noexcept {
  // Floats are for exact comparisons.
  if (args.types.k == KvType::kF32) return kTileBase.attention(args);
  ReadRows rows(args);
  compute_spans(args, rows.n_rows(), rows.partials(),
                [&](size_t span, float* partials) { rows.attend_span(span, partials); });
}

}  // namespace
}  // namespace billow::kernels
