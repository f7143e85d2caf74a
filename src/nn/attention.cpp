#include "nn/attention.h"

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace billow::nn {
namespace {

using kernels::kBlockPositions;
using kernels::kMaxAttentionRows;

// Neighbouring rows of one sequence that a call of the kernel takes together.
struct Tile {
  size_t begin = 0;
  size_t n = 0;
};

std::vector<Tile> tiles_of(std::span<const uint32_t> sequences, size_t rows_at_once) {
  std::vector<Tile> tiles;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const bool joins = !tiles.empty() && tiles.back().n < rows_at_once &&
                       sequences[tiles.back().begin] == sequences[i];
    if (joins) ++tiles.back().n;
    if (!joins) tiles.push_back({i, 1});
  }
  return tiles;
}

// One KV head against one tile.
void attend(const Compute& compute, const KvLayer& layer, const KvRows& rows, tensor::Matrix q,
            AttentionScale scale, tensor::Matrix out, size_t head, Tile tile) {
  const size_t n_q_heads = q.n_cols / layer.k_len;
  const size_t n_sharing = n_q_heads / layer.n_heads;
  const float* queries[kMaxAttentionRows];
  float* outputs[kMaxAttentionRows];
  uint32_t first[kMaxAttentionRows];
  uint32_t last[kMaxAttentionRows];
  // More query heads than the kernel takes at once are done in turns.
  for (size_t done = 0; done < tile.n * n_sharing;) {
    const size_t n = std::min(kMaxAttentionRows, tile.n * n_sharing - done);
    for (size_t i = 0; i < n; ++i) {
      const size_t row = tile.begin + (done + i) / n_sharing;
      const size_t q_head = head * n_sharing + (done + i) % n_sharing;
      const uint32_t position = rows.positions[row];
      queries[i] = q.row(row) + q_head * layer.k_len;
      outputs[i] = out.row(row) + q_head * layer.v_len;
      first[i] = layer.window != 0 && position + 1 > layer.window
                     ? static_cast<uint32_t>(position + 1 - layer.window)
                     : 0;
      last[i] = position;
    }
    compute.kernels.attention({.n_rows = n,
                               .queries = queries,
                               .outputs = outputs,
                               .first = first,
                               .last = last,
                               .base = layer.base,
                               .block_ids = rows.blocks[rows.sequences[tile.begin]].data(),
                               .block_bytes = layer.block_bytes,
                               .k_offset = layer.k_offset + head * layer.head_bytes,
                               .v_offset = layer.v_offset + head * layer.head_bytes,
                               .k_len = layer.k_len,
                               .v_len = layer.v_len,
                               .scale = scale.factor,
                               .softcap = scale.softcap});
    done += n;
  }
}

}  // namespace

void store_kv(const Compute& compute, const KvLayer& layer, const KvRows& rows, tensor::Matrix k,
              tensor::Matrix v) {
  constexpr size_t kRowsAtOnce = 16;
  compute.team.for_pieces(k.n_rows, kRowsAtOnce, [&](size_t begin, size_t end, int) {
    for (size_t row = begin; row < end; ++row) {
      const uint32_t position = rows.positions[row];
      const uint32_t id = rows.blocks[rows.sequences[row]][position / kBlockPositions];
      std::byte* block = layer.base + id * layer.block_bytes;
      const size_t within = position % kBlockPositions;
      for (size_t h = 0; h < layer.n_heads; ++h) {
        auto* keys = reinterpret_cast<uint16_t*>(block + layer.k_offset + h * layer.head_bytes);
        auto* values = reinterpret_cast<uint16_t*>(block + layer.v_offset + h * layer.head_bytes);
        compute.kernels.store_f16(k.row(row) + h * layer.k_len, layer.k_len, keys + within,
                                  kBlockPositions);
        compute.kernels.store_f16(v.row(row) + h * layer.v_len, layer.v_len,
                                  values + within * layer.v_len, 1);
      }
    }
  });
}

void attention(const Compute& compute, const KvLayer& layer, const KvRows& rows, tensor::Matrix q,
               AttentionScale scale, tensor::Matrix out) {
  const size_t n_q_heads = q.n_cols / layer.k_len;
  BILLOW_CHECK(n_q_heads % layer.n_heads == 0 && out.n_cols == n_q_heads * layer.v_len);
  const size_t rows_at_once = std::max<size_t>(1, kMaxAttentionRows / (n_q_heads / layer.n_heads));
  const std::vector<Tile> tiles = tiles_of(rows.sequences, rows_at_once);
  compute.team.for_pieces(tiles.size() * layer.n_heads, 1, [&](size_t begin, size_t end, int) {
    for (size_t i = begin; i < end; ++i) {
      attend(compute, layer, rows, q, scale, out, i % layer.n_heads, tiles[i / layer.n_heads]);
    }
  });
}

}  // namespace billow::nn
