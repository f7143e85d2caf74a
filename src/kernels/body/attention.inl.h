// Attention of query rows over the blocks of one KV head, span by span. Rows are divided into tiles
// of at most Isa::kAttentionRows. Each block is loaded once for all tiles.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/attention_softmax.inl.h"
#include "kernels/body/attention_tile.inl.h"
#include "kernels/kernel_table.h"

namespace billow::kernels {
namespace {

// The data of a block that a tile needs.
struct AttentionBlock {
  const std::byte* k;
  const std::byte* v;
  size_t start;      // its first position
  uintptr_t next_k;  // addresses in the next block
  uintptr_t next_v;
};

// Up to Isa::kAttentionRows rows; row r sees positions [first[r], end[r]).
struct AttentionTile {
  size_t n_rows;
  const uint32_t* first;
  const uint32_t* end;
  // The min and max of `first` and `end` over the rows.
  size_t min_first;
  size_t max_first;
  size_t min_end;
  size_t max_end;
  const float* query;  // packed
  size_t first_row;    // first row of its partial results
};

// Returns the offset of `position` in the block that begins at `start`, limited to the block.
inline size_t within_block(size_t position, size_t start) noexcept {
  if (position <= start) return 0;
  return position - start < kBlockPositions ? position - start : kBlockPositions;
}

template <size_t R>
void attend_tile(const AttentionArgs& args, const AttentionTile& tile, const AttentionBlock& block,
                 float* scores, float* partials) noexcept {
  constexpr size_t kStep = kStripsFor<R> * Isa::kLanes;
  const size_t begin = within_block(tile.min_first, block.start);
  const size_t end = within_block(tile.max_end, block.start);
  if (begin >= end) return;
  const bool whole = tile.max_first <= block.start && tile.min_end >= block.start + kBlockPositions;
  const size_t stride = partial_floats(args.v_len);
  // In the order of KvType
  constexpr decltype(&score_floats<R>) kScores[] = {score_codes16<R>, score_codes8<R, KeyCodes8>,
                                                    score_floats<R>, score_codes8<R, KeyCodes4>};
  kScores[static_cast<size_t>(args.types.k)](args, block.k, block.next_k, tile.query, begin, end,
                                             scores);
  float shrink[R];
  for (size_t r = 0; r < R; ++r) {
    float* row = scores + r * kBlockPositions;
    float* tail = partials + r * stride + args.v_len;
    if (args.slopes != nullptr) {
      const size_t row_of_call = tile.first_row + r;
      add_distance(row, begin / kStep * kStep, (end + kStep - 1) / kStep * kStep, block.start,
                   args.positions[row_of_call / args.n_heads],
                   args.slopes[row_of_call % args.n_heads] * kLog2E);
    }
    if (whole && args.softcap == 0.0f) {
      shrink[r] = weigh_row(row, 0, kBlockPositions, 0, kBlockPositions, 0.0f, tail);
    } else {
      shrink[r] = weigh_row(row, begin / kStep * kStep, (end + kStep - 1) / kStep * kStep,
                            within_block(tile.first[r], block.start),
                            within_block(tile.end[r], block.start), args.softcap, tail);
    }
  }
  if (args.types.v == KvType::kF32) {
    add_floats<R>(block.v, args.v_len, scores, begin, end, shrink, partials, stride);
  } else if (args.types.v == KvType::kInt16) {
    add_block<R>(ValueCodes16{block.v, args.v_len}, block.next_v, scores, begin, end, shrink,
                 partials, stride);
  } else if (args.types.v == KvType::kQ8_0) {
    // Prefetches as many bytes as 16-bit values have: keys and values of the next block.
    add_block<R>(ValueCodes8{block.v, args.v_len}, block.next_k, scores, begin, end, shrink,
                 partials, stride);
  } else {
    add_block<R>(ValueCodes4{block.v, args.v_len}, block.next_k, scores, begin, end, shrink,
                 partials, stride);
  }
}

using AttendTile = void (*)(const AttentionArgs&, const AttentionTile&, const AttentionBlock&,
                            float*, float*) noexcept;

template <size_t R = Isa::kAttentionRows>
inline AttendTile attend_of(size_t n_rows) noexcept {
  if constexpr (R == 1) {
    return attend_tile<1>;
  } else {
    return n_rows == R ? attend_tile<R> : attend_of<R - 1>(n_rows);
  }
}

// Returns the factor of queries. With this factor, scores are exponents of two, or the argument of
// the soft cap's tanh.
inline float query_factor(const AttentionArgs& args) noexcept {
  return args.softcap > 0.0f ? args.scale / args.softcap : args.scale * kLog2E;
}

inline float sink_of(const AttentionArgs& args, size_t row) noexcept {
  return args.sinks == nullptr ? kLowest : args.sinks[row % args.n_heads] * kLog2E;
}

inline float* output_row(const AttentionArgs& args, size_t row) noexcept {
  return args.outputs + row / args.n_heads * args.output_stride + row % args.n_heads * args.v_len;
}

// Writes a row's output from its merged partial result. Undoes the rotation of values, if any.
inline void write_row(const AttentionArgs& args, size_t row, const float* partial) noexcept {
  float* out = output_row(args, row);
  write_output(partial, args.v_len, sink_of(args, row), out);
  if (args.types.v != KvType::kQ4_0) return;
  for (size_t at = 0; at < args.v_len; at += kKvGroup) {
    (args.v_len - at < kKvGroup ? rotate_group<16> : rotate_group<kKvGroup>)(out + at, out + at);
  }
}

// The rows of a call, divided evenly into tiles, with their queries packed.
struct AttentionTiles {
  AttentionTiles(const AttentionArgs& args, float* queries) noexcept;
  static constexpr size_t kMaxTiles =
      (kMaxAttentionRows + Isa::kAttentionRows - 1) / Isa::kAttentionRows;
  size_t n_rows;
  size_t n_tiles;
  size_t first_block;  // first block that a row sees
  size_t last_block;
  uint32_t first[kMaxAttentionRows];
  uint32_t end[kMaxAttentionRows];
  AttentionTile tiles[kMaxTiles];
};

AttentionTiles::AttentionTiles(const AttentionArgs& args, float* queries) noexcept
    : n_rows(args.n_tokens * args.n_heads),
      n_tiles((n_rows + Isa::kAttentionRows - 1) / Isa::kAttentionRows) {
  size_t min_first = args.first[0];
  size_t max_end = 0;
  size_t row = 0;
  for (size_t t = 0; t < n_tiles; ++t) {
    AttentionTile& tile = tiles[t];
    const size_t n = n_rows / n_tiles + (t < n_rows % n_tiles ? 1 : 0);
    tile = {n, first + row, end + row, SIZE_MAX, 0, SIZE_MAX, 0, queries + row * args.k_len, row};
    const float* rows[Isa::kAttentionRows];
    for (size_t r = 0; r < n; ++r, ++row) {
      const size_t token = row / args.n_heads;
      const size_t a = args.first[token];
      const size_t b = size_t{args.last[token]} + 1;
      first[row] = args.first[token];
      end[row] = args.last[token] + 1;
      tile.min_first = a < tile.min_first ? a : tile.min_first;
      tile.max_first = a > tile.max_first ? a : tile.max_first;
      tile.min_end = b < tile.min_end ? b : tile.min_end;
      tile.max_end = b > tile.max_end ? b : tile.max_end;
      rows[r] = args.queries + token * args.query_stride + row % args.n_heads * args.k_len;
    }
    min_first = tile.min_first < min_first ? tile.min_first : min_first;
    max_end = tile.max_end > max_end ? tile.max_end : max_end;
    constexpr decltype(&pack_query_floats) kPacks[] = {
        pack_query_codes16, pack_query_codes8<KeyCodes8>, pack_query_floats,
        pack_query_codes8<KeyCodes4>};  // in the order of KvType
    kPacks[static_cast<size_t>(args.types.k)](rows, n, args.k_len, query_factor(args),
                                              queries + tile.first_row * args.k_len);
  }
  first_block = min_first / kBlockPositions;
  last_block = (max_end - 1) / kBlockPositions;
}

// Computes the partial results of one span from its blocks, starting from nothing.
inline void attend_span(const AttentionArgs& args, const AttentionTiles& rows, size_t span,
                        float* scores, float* partials) noexcept {
  constexpr size_t kSpanBlocks = kSpanPositions / kBlockPositions;
  const size_t stride = partial_floats(args.v_len);
  for (size_t r = 0; r < rows.n_rows; ++r) clear_partial(partials + r * stride, args.v_len);
  size_t block = span * kSpanBlocks > rows.first_block ? span * kSpanBlocks : rows.first_block;
  for (; block < (span + 1) * kSpanBlocks && block <= rows.last_block; ++block) {
    const std::byte* here = args.base + args.block_ids[block] * args.block_bytes;
    const size_t next = block < rows.last_block ? block + 1 : block;
    const auto there =
        reinterpret_cast<uintptr_t>(args.base + args.block_ids[next] * args.block_bytes);
    const AttentionBlock place{here + args.k_offset, here + args.v_offset, block * kBlockPositions,
                               there + args.k_offset, there + args.v_offset};
    for (size_t t = 0; t < rows.n_tiles; ++t) {
      const AttentionTile& tile = rows.tiles[t];
      attend_of(tile.n_rows)(args, tile, place, scores, partials + tile.first_row * stride);
    }
  }
  for (size_t r = 0; r < rows.n_rows; ++r) close_partial(partials + r * stride, args.v_len);
}

// Computes the spans of a call: its partial results, or its outputs. attend(span, partials) writes
// the partial results of one span. `scratch` has room for those of all rows, twice.
template <class Attend>
inline void compute_spans(const AttentionArgs& args, size_t n_rows, float* scratch,
                          Attend attend) noexcept {
  const size_t stride = partial_floats(args.v_len);
  if (args.partials != nullptr) {
    for (size_t span = args.span_begin; span < args.span_end; ++span)
      attend(span, args.partials + (span - args.span_begin) * n_rows * stride);
    return;
  }
  float* const merged = scratch;
  float* const of_span = scratch + n_rows * stride;
  attend(args.span_begin, merged);
  for (size_t span = args.span_begin + 1; span < args.span_end; ++span) {
    attend(span, of_span);
    for (size_t r = 0; r < n_rows; ++r)
      merge_partial(merged + r * stride, of_span + r * stride, args.v_len);
  }
  for (size_t r = 0; r < n_rows; ++r) write_row(args, r, merged + r * stride);
}

inline void attention(const AttentionArgs& args) noexcept {
  const AttentionTiles rows(args, args.scratch);
  float* const partials = args.scratch + rows.n_rows * args.k_len;
  float* const scores = partials + 2 * rows.n_rows * partial_floats(args.v_len);
  compute_spans(args, rows.n_rows, partials, [&](size_t span, float* of_span) {
    attend_span(args, rows, span, scores, of_span);
  });
}

inline void merge_attention(const AttentionArgs& args) noexcept {
  const size_t n_rows = args.n_tokens * args.n_heads;
  const size_t stride = partial_floats(args.v_len);
  float* merged = args.scratch;
  for (size_t r = 0; r < n_rows; ++r) {
    clear_partial(merged, args.v_len);
    for (size_t span = 0; span < args.span_end - args.span_begin; ++span) {
      merge_partial(merged, args.partials + (span * n_rows + r) * stride, args.v_len);
    }
    write_row(args, r, merged);
  }
}

}  // namespace
}  // namespace billow::kernels
