#include "nn/attention.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/check.h"

namespace billow::nn {
namespace {

using kernels::kBlockPositions;
using kernels::kMaxAttentionRows;
using kernels::kSpanPositions;

// Query heads that share a KV head, at most as many as the kernel takes in one call.
struct HeadRange {
  size_t kv_head = 0;
  size_t q_begin = 0;
  size_t n = 0;
};

std::vector<HeadRange> head_ranges(size_t n_kv_heads, size_t n_sharing) {
  std::vector<HeadRange> ranges;
  for (size_t head = 0; head < n_kv_heads; ++head) {
    for (size_t done = 0; done < n_sharing; done += kMaxAttentionRows) {
      ranges.push_back(
          {head, head * n_sharing + done, std::min(kMaxAttentionRows, n_sharing - done)});
    }
  }
  return ranges;
}

// Adjacent rows of one sequence and one kind with one range of heads. Threads share a tile's spans.
// Spans are counted in the order of merging: first those before the gap, then those after the gap.
struct Tile {
  HeadRange heads;
  size_t begin = 0;  // its first row in the batch
  size_t n = 0;
  size_t n_before = 0;    // spans before the gap, from the first
  size_t span_begin = 0;  // spans after the gap
  size_t span_end = 0;
  float* partials = nullptr;  // [spans][rows], if the tile is cut into several pieces
  size_t n_pieces = 0;

  size_t n_rows() const { return n * heads.n; }
  size_t n_spans() const { return n_before + span_end - span_begin; }
};

// A unit of work: some spans of a tile.
struct Piece {
  size_t tile = 0;
  size_t begin = 0;
  size_t end = 0;
};

Gap gap_of(const KvRows& rows, size_t row) {
  return rows.gaps.empty() ? Gap{} : rows.gaps[rows.sequences[row]];
}

// Returns the first visible position after the gap, if there is a gap.
size_t first_seen(const KvLayer& layer, const Gap& gap, size_t position) {
  const size_t in_window =
      layer.window != 0 && position + 1 > layer.window ? position + 1 - layer.window : 0;
  size_t in_chunk = 0;
  if (layer.chunk != 0) {
    // Chunks are counted without the gap.
    const size_t begin = (position - gap.n()) / layer.chunk * layer.chunk;
    in_chunk = begin < gap.begin ? begin : begin + gap.n();
  }
  return std::max({in_window, in_chunk, gap.n() == 0 ? size_t{0} : gap.end});
}

uint32_t last_seen(const KvRows& rows, size_t row) {
  return rows.last.empty() ? rows.positions[row] : rows.last[row];
}

size_t spans_before(const KvLayer& layer, const Gap& gap) {
  if (gap.n() == 0 || layer.window != 0 || layer.chunk != 0) return 0;
  return (gap.begin + kSpanPositions - 1) / kSpanPositions;
}

// Returns the tiles of a batch, later rows first, because these have the longest tiles in a prompt.
std::vector<Tile> tiles_of(const Compute& compute, const KvLayer& layer, const KvRows& rows,
                           size_t n_sharing) {
  // Few enough to reuse each block, enough to share the work.
  constexpr size_t kTilesPerThread = 8;
  const std::vector<HeadRange> ranges = head_ranges(layer.n_heads, n_sharing);
  const size_t n_rows = rows.positions.size();
  const size_t wanted = kTilesPerThread * static_cast<size_t>(compute.team.size());
  const size_t tile_rows = std::clamp(n_rows * ranges.size() * ranges[0].n / wanted,
                                      compute.kernels.attention_rows, kMaxAttentionRows);
  const size_t tokens_at_once = std::max<size_t>(1, tile_rows / ranges[0].n);
  std::vector<Tile> tiles;
  for (size_t end = n_rows; end > 0;) {
    size_t begin = end - 1;
    while (begin > 0 && end - begin < tokens_at_once &&
           rows.sequences[begin - 1] == rows.sequences[end - 1] &&
           compute.kind_of(begin - 1) == compute.kind_of(end - 1))
      --begin;
    const Gap gap = gap_of(rows, begin);
    for (const HeadRange& heads : ranges) {
      tiles.push_back({.heads = heads,
                       .begin = begin,
                       .n = end - begin,
                       .n_before = spans_before(layer, gap),
                       .span_begin = first_seen(layer, gap, rows.positions[begin]) / kSpanPositions,
                       .span_end = last_seen(rows, end - 1) / kSpanPositions + 1});
    }
    end = begin;
  }
  return tiles;
}

// Cuts small tiles into pieces so that the threads finish together. Later pieces are smaller.
std::vector<Piece> pieces_of(const Compute& compute, const KvLayer& layer,
                             std::vector<Tile>& tiles) {
  constexpr size_t kPiecesPerThread = 4;
  const auto n_threads = static_cast<size_t>(compute.team.size());
  size_t n_left = 0;
  for (const Tile& tile : tiles) n_left += tile.n_spans() * tile.n_rows();
  std::vector<Piece> pieces;
  for (size_t t = 0; t < tiles.size(); ++t) {
    Tile& tile = tiles[t];
    const bool may_cut =
        n_threads > 1 && (tile.n == 1 || tile.n_rows() <= compute.kernels.attention_rows);
    for (size_t at = 0; at < tile.n_spans(); ++tile.n_pieces) {
      const size_t share = n_left / (kPiecesPerThread * n_threads * tile.n_rows());
      const size_t n = may_cut ? std::clamp<size_t>(share, 1, tile.n_spans() - at) : tile.n_spans();
      pieces.push_back({t, at, at + n});
      n_left -= n * tile.n_rows();
      at += n;
    }
    if (tile.n_pieces == 1) continue;
    tile.partials = compute.arena.array<float>(tile.n_spans() * tile.n_rows() *
                                               kernels::partial_floats(layer.v_len));
  }
  return pieces;
}

struct Operands {
  const KvLayer& layer;
  const KvRows& rows;
  const Queries& queries;
  AttentionScale scale;
  tensor::Matrix out;
};

// Returns the kernel's arguments for a tile, except visible positions and spans.
kernels::AttentionArgs args_of(const Operands& on, const Tile& tile, tensor::Matrix q,
                               float* scratch) {
  const KvLayer& layer = on.layer;
  return {.types = layer.types,
          .n_tokens = tile.n,
          .n_heads = tile.heads.n,
          .queries = q.row(tile.begin) + tile.heads.q_begin * layer.k_len,
          .query_stride = q.n_cols,
          .outputs = on.out.row(tile.begin) + tile.heads.q_begin * layer.v_len,
          .output_stride = on.out.n_cols,
          .base = layer.base,
          .block_ids = on.rows.blocks[on.rows.sequences[tile.begin]].data(),
          .block_bytes = layer.block_bytes,
          .k_offset = layer.k_offset + tile.heads.kv_head * layer.head_bytes,
          .v_offset = layer.v_offset + tile.heads.kv_head * layer.head_bytes,
          .k_len = layer.k_len,
          .v_len = layer.v_len,
          .scale = on.scale.factor,
          .softcap = on.scale.softcap,
          .sinks = on.scale.sinks == nullptr ? nullptr : on.scale.sinks + tile.heads.q_begin,
          .slopes = on.scale.slopes == nullptr ? nullptr : on.scale.slopes + tile.heads.q_begin,
          .scratch = scratch};
}

// Returns the floats that a thread needs for the partial results of a tile that is not cut but has
// a gap. A kernel cannot write outputs across a gap.
size_t gap_floats(std::span<const Tile> tiles, size_t v_len) {
  size_t max = 0;
  for (const Tile& tile : tiles) {
    if (tile.n_before != 0 && tile.n_pieces == 1)
      max = std::max(max, tile.n_spans() * tile.n_rows() * kernels::partial_floats(v_len));
  }
  return max;
}

// Computes spans [begin, end) of a tile: partial results, or outputs if `partials` is null.
void attend(const Compute& compute, const Operands& on, const Tile& tile, size_t begin, size_t end,
            float* partials, float* scratch) {
  const bool in_bf16 =
      on.scale.reads_in_bf16 && compute.kind_of(tile.begin) == kernels::RowKind::kRead;
  const auto kernel = in_bf16 ? compute.kernels.read_attention : compute.kernels.attention;
  const Gap gap = gap_of(on.rows, tile.begin);
  const size_t span_floats = tile.n_rows() * kernels::partial_floats(on.layer.v_len);
  uint32_t first[kMaxAttentionRows];
  uint32_t last[kMaxAttentionRows];
  uint32_t position[kMaxAttentionRows];
  if (begin < tile.n_before) {
    std::fill_n(first, tile.n, 0u);
    std::fill_n(last, tile.n, static_cast<uint32_t>(gap.begin - 1));
    for (size_t t = 0; t < tile.n; ++t)
      position[t] = on.rows.positions[tile.begin + t] - static_cast<uint32_t>(gap.n());
    kernels::AttentionArgs args = args_of(on, tile, on.queries.before_gap, scratch);
    args.first = first;
    args.last = last;
    args.positions = position;
    args.span_begin = begin;
    args.span_end = std::min(end, tile.n_before);
    args.partials = partials + begin * span_floats;
    kernel(args);
    begin = args.span_end;
  }
  if (begin == end) return;
  for (size_t t = 0; t < tile.n; ++t) {
    position[t] = on.rows.positions[tile.begin + t];
    last[t] = last_seen(on.rows, tile.begin + t);
    first[t] = static_cast<uint32_t>(first_seen(on.layer, gap, position[t]));
  }
  kernels::AttentionArgs args = args_of(on, tile, on.queries.q, scratch);
  args.first = first;
  args.last = last;
  args.positions = position;
  args.span_begin = tile.span_begin + begin - tile.n_before;
  args.span_end = tile.span_begin + end - tile.n_before;
  args.partials = partials == nullptr ? nullptr : partials + begin * span_floats;
  kernel(args);
}

void merge(const Compute& compute, const Operands& on, const Tile& tile, float* partials,
           float* scratch) {
  kernels::AttentionArgs args = args_of(on, tile, on.queries.q, scratch);
  args.span_end = tile.n_spans();
  args.partials = partials;
  compute.kernels.merge_attention(args);
}

// Counts the memory of a sizing pass: scratch of each thread, and partial results of cut tiles.
//
// pieces_of() cuts a tile if its spans exceed 1/4 of a thread's share of the remaining work. The
// remaining work is that of this tile and all later ones. So all cut tiles are in a tail with less
// work than 4 times the largest such tile for each thread. The tail never has more work than all
// rows.
void take_max(const Compute& compute, const KvLayer& layer, size_t n_rows, size_t n_q_heads) {
  const size_t n_threads = compute.n_threads();
  const size_t n_spans = compute.sizing->n_positions / kSpanPositions + 3;  // a gap splits one
  const size_t partial = kernels::partial_floats(layer.v_len);
  size_t n_partials = n_threads * kMaxAttentionRows * n_spans;  // for tiles across a gap
  if (n_threads > 1) {
    constexpr size_t kPiecesPerThread = 4;
    const size_t n_sharing = std::min(n_q_heads / layer.n_heads, kMaxAttentionRows);
    const size_t rows_of_tile = std::max(compute.kernels.attention_rows, n_sharing);
    n_partials +=
        std::min(kPiecesPerThread * n_threads * rows_of_tile, n_rows * n_q_heads) * n_spans;
  }
  compute.arena.array<float>(n_partials * partial);
  compute.arena.array<float>(
      n_threads * kernels::attention_scratch_floats(kMaxAttentionRows, layer.k_len, layer.v_len));
}

}  // namespace

void store_kv(const Compute& compute, const KvLayer& layer, const KvRows& rows, tensor::Matrix k,
              tensor::Matrix v) {
  if (compute.sizing != nullptr) return;
  constexpr size_t kRowsAtOnce = 16;
  compute.team.for_pieces(k.n_rows, kRowsAtOnce, [&](size_t begin, size_t end, int) {
    for (size_t row = begin; row < end; ++row) {
      const uint32_t position = rows.positions[row];
      const uint32_t id = rows.blocks[rows.sequences[row]][position / kBlockPositions];
      std::byte* block = layer.base + id * layer.block_bytes;
      for (size_t h = 0; h < layer.n_heads; ++h) {
        compute.kernels.store_kv({.types = layer.types,
                                  .k = k.row(row) + h * layer.k_len,
                                  .v = v.row(row) + h * layer.v_len,
                                  .k_len = layer.k_len,
                                  .v_len = layer.v_len,
                                  .within = position % kBlockPositions,
                                  .k_block = block + layer.k_offset + h * layer.head_bytes,
                                  .v_block = block + layer.v_offset + h * layer.head_bytes});
      }
    }
  });
}

void attention(const Compute& compute, const KvLayer& layer, const KvRows& rows,
               const Queries& queries, AttentionScale scale, tensor::Matrix out) {
  const size_t n_q_heads = queries.q.n_cols / layer.k_len;
  BILLOW_CHECK(n_q_heads % layer.n_heads == 0 && out.n_cols == n_q_heads * layer.v_len);
  if (queries.q.n_rows == 0) return;
  const tensor::ArenaScope scope(compute.arena);
  if (compute.sizing != nullptr) return take_max(compute, layer, queries.q.n_rows, n_q_heads);
  const Operands operands{layer, rows, queries, scale, out};
  std::vector<Tile> tiles = tiles_of(compute, layer, rows, n_q_heads / layer.n_heads);
  const std::vector<Piece> pieces = pieces_of(compute, layer, tiles);
  const size_t scratch_floats =
      kernels::attention_scratch_floats(kMaxAttentionRows, layer.k_len, layer.v_len);
  const auto n_threads = static_cast<size_t>(compute.team.size());
  auto* scratch = compute.arena.array<float>(scratch_floats * n_threads);
  const size_t own_floats = gap_floats(tiles, layer.v_len);
  auto* own_partials = compute.arena.array<float>(own_floats * n_threads);
  std::vector<std::atomic<size_t>> n_done(tiles.size());  // pieces
  compute.team.for_pieces(pieces.size(), 1, [&](size_t begin, size_t end, int member) {
    const auto m = static_cast<size_t>(member);
    float* own = scratch + scratch_floats * m;
    for (const Piece& piece : std::span(pieces).subspan(begin, end - begin)) {
      const Tile& tile = tiles[piece.tile];
      float* partials = tile.n_pieces > 1    ? tile.partials
                        : tile.n_before != 0 ? own_partials + own_floats * m
                                             : nullptr;
      attend(compute, operands, tile, piece.begin, piece.end, partials, own);
      // The thread that finishes the last piece of a tile merges all pieces.
      if (partials != nullptr &&
          n_done[piece.tile].fetch_add(1, std::memory_order_acq_rel) + 1 == tile.n_pieces) {
        merge(compute, operands, tile, partials, own);
      }
    }
  });
}

}  // namespace billow::nn
