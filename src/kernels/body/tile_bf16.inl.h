// Products of BF16 with tiles, for any number of rows: 32 of k at a time, in order, added to 32-bit
// sums. A slab of the weights of some strips stays in the first cache level while all rows use it.
// Sums stay in tiles for one slab, and in `out` until the next slab.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/bf16_form.inl.h"
#include "kernels/body/products.inl.h"
#include "kernels/body/strips.inl.h"
#include "kernels/body/tile_shapes.inl.h"
#include "kernels/body/vocabulary.inl.h"
#include "kernels/kernel_table.h"

namespace billow::kernels {
namespace {

constexpr size_t kTileBytes = size_t{16} * 64;  // 32 of k of a strip
constexpr size_t kTilesOfBlock = quant::kPackedBlock / kActivationGroup;
// Max blocks of a slab: 96 KiB of two strips. Storing sums and loading them again takes as long as
// the products of a few blocks, so slabs are long, although they exceed the first cache level.
constexpr size_t kTileSlabBlocks = 24;
// Activations up to this size stay in the second cache level while strips are multiplied with them.
constexpr size_t kTileInputBytes = size_t{1600} << 10;

// The slabs of a product, and those that one pass over the strips takes.
struct TileSlabs {
  size_t n_blocks;  // of all k
  size_t n;
  size_t begin;
  size_t end;
  size_t first_block(size_t slab) const noexcept { return n_blocks * slab / n; }
};

// The tiles of a slab: for each strip, the tiles of 32 of k in order.
struct TileSlabWeights {
  const uint8_t* at;
  size_t strip_bytes;  // distance of adjacent strips
  size_t tile_bytes;   // distance of adjacent tiles of a strip
};

// Weights that are BF16 in their strips: each 32 of k are a tile without any change.
template <size_t S>
struct Bf16Strips {
  const GemmArgs& args;
  size_t vector;

  TileSlabWeights slab(size_t first_block, size_t) noexcept {
    const uint8_t* first = strip_of<quant::BF16::kPacking>(args, vector);
    const uint8_t* second = strip_of<quant::BF16::kPacking>(args, vector + (S - 1) * kHalves);
    return {first + first_block * kTilesOfBlock * kTileBytes, static_cast<size_t>(second - first),
            kTileBytes};
  }
  static constexpr quant::Packing kPacking = quant::BF16::kPacking;
};

// The place where sums begin and end: rows of `stride` floats.
struct SumPlace {
  const float* bias;  // [S][16][16], for the first slab; or null
  bool first;         // first slab: sums begin at the bias
  float* at;
  size_t stride;
};

// Prefetches the next strips, a few cache lines with each product, so that they are in the second
// cache level in time.
class TilePrefetch {
 public:
  // Prefetches n_bytes from `at` on in n_steps.
  TilePrefetch(const uint8_t* at, size_t n_bytes, size_t n_steps) noexcept
      : at_(at), end_(at + n_bytes), step_bytes_((n_bytes / 64 + n_steps - 1) / n_steps * 64) {}
  void step() noexcept {
    for (const uint8_t* to = at_ + step_bytes_; at_ < to && at_ < end_; at_ += 64)
      __builtin_prefetch(at_, 0, 2);
  }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
  size_t step_bytes_;
};

// Multiplies two groups of rows with S strips over a slab of k.
template <size_t G, size_t S>
void multiply_tiles(Tiles& tiles, const TileGroup (&groups)[2], const TileSlabWeights& weights,
                    size_t n_tiles, TilePrefetch& next, const SumPlace& sums) noexcept {
  const size_t bytes = sums.stride * sizeof(float);
  float* at[2] = {sums.at, sums.at + groups[0].n_rows * sums.stride};
  each_tile<G, S>([&](auto g, auto s) {
    constexpr int kSum = 2 * decltype(g)::value + decltype(s)::value;
    if (!sums.first) {
      tiles.template load<kSum>(at[g] + s * quant::kStripRows, bytes);
    } else if (sums.bias != nullptr) {
      tiles.template load<kSum>(sums.bias + s * quant::kStripRows * kTileGroupRows, 64);
    } else {
      tiles.template zero<kSum>();
    }
  });
  const size_t tile_bytes = weights.tile_bytes;
  const size_t group_bytes[2] = {groups[0].n_rows * kBf16RowBytes,
                                 groups[1].n_rows * kBf16RowBytes};
  const uint8_t* w[2] = {weights.at, weights.at + weights.strip_bytes};
  const std::byte* x[2] = {groups[0].at, groups[1].at};
  for (size_t i = 0; i < n_tiles; ++i) {
    next.step();
    // If another program uses the tiles of the same core, loads between products are 10 % slower.
    tiles.template load<6>(w[0], 64);
    tiles.template load<4>(x[0], kBf16RowBytes);
    if constexpr (S == 2) tiles.template load<7>(w[1], 64);
    if constexpr (G == 2) tiles.template load<5>(x[1], kBf16RowBytes);
    tiles.template dot_bf16<0, 4, 6>();
    if constexpr (S == 2) tiles.template dot_bf16<1, 4, 7>();
    if constexpr (G == 2) tiles.template dot_bf16<2, 5, 6>();
    if constexpr (G == 2 && S == 2) tiles.template dot_bf16<3, 5, 7>();
    w[0] += tile_bytes;
    w[1] += tile_bytes;
    x[0] += group_bytes[0];
    x[1] += group_bytes[1];
  }
  each_tile<G, S>([&](auto g, auto s) {
    tiles.template store<2 * decltype(g)::value + decltype(s)::value>(at[g] + s * quant::kStripRows,
                                                                      bytes);
  });
}

// Sums of outputs that do not fill their strips. They have separate memory, because tiles write
// whole strips.
template <size_t S>
struct TileEdge {
  static constexpr size_t kColumns = S * quant::kStripRows;
  alignas(64) float sums[2 * kTileGroupRows][kColumns];

  void exchange(const GemmArgs& args, size_t vector, size_t row, size_t n_rows,
                bool load) noexcept {
    for (size_t j = 0; j < n_rows; ++j) {
      for (size_t v = 0; v < S * kHalves; ++v) {
        const size_t lanes = lanes_of(args, vector + v);
        float* out = args.out + (row + j) * args.out_stride + (vector + v) * Isa::kLanes;
        float* own = sums[j] + v * Isa::kLanes;
        if (load) Isa::store(own, lanes == 0 ? Isa::zero() : load_lanes(out, lanes));
        if (!load && lanes != 0) store_lanes(out, Isa::load(own), lanes);
      }
    }
  }
};

// Returns a prefetch of at most two strips from `vector` on and before `end`.
template <quant::Packing P>
TilePrefetch prefetch_strips(const GemmArgs& args, size_t vector, size_t end,
                             size_t n_steps) noexcept {
  const uint8_t* at = strip_of<P>(args, vector);
  if (args.prefetch_bytes == 0 || vector >= end) return {at, 0, 1};
  const size_t last = vector + 2 * kHalves < end ? vector + 2 * kHalves : end;
  return {at, static_cast<size_t>(strip_of<P>(args, last) - at), n_steps};
}

// Multiplies all rows with the S strips of `weights`, which begin at `vector`, over some slabs.
// More strips follow up to `end`.
template <class Weights, size_t S>
void multiply_tile_strips(Tiles& tiles, TileSetting<Tiles>& setting, const GemmArgs& args,
                          Weights& weights, const TileSlabs& slabs, size_t vector,
                          size_t end) noexcept {
  TileEdge<S> edge;
  const bool whole = lanes_of(args, vector + S * kHalves - 1) == Isa::kLanes;
  alignas(64) float bias[S][kTileGroupRows][quant::kStripRows];
  if (args.bias != nullptr) {
    for (size_t v = 0; v < S * kHalves; ++v) {
      const F own = bias_of(args, vector + v, lanes_of(args, vector + v));
      for (auto& row : bias[v / kHalves]) Isa::store(row + v % kHalves * Isa::kLanes, own);
    }
  }
  const RowGroups groups = {args.m, (args.m + kTileGroupRows - 1) / kTileGroupRows};
  const size_t n_blocks = slabs.n_blocks;
  const size_t n_pairs = (args.group_end - args.group_begin + 1) / 2;
  const bool is_whole = slabs.end - slabs.begin == slabs.n;
  TilePrefetch next = prefetch_strips<Weights::kPacking>(
      args, vector + S * kHalves, is_whole ? end : 0, n_pairs * n_blocks * kTilesOfBlock);
  for (size_t slab = slabs.begin; slab < slabs.end; ++slab) {
    const size_t block = slabs.first_block(slab);
    const size_t n = slabs.first_block(slab + 1) - block;
    const TileSlabWeights slab_weights = weights.slab(block, n);
    for (size_t g = args.group_begin; g < args.group_end; g += 2) {
      TileGroup pair[2];
      const size_t first = groups.begin(g);
      for (size_t i = 0; i < 2 && g + i < args.group_end; ++i) {
        const size_t row = groups.begin(g + i);
        const size_t n_rows = groups.begin(g + i + 1) - row;
        pair[i] = {args.input + (row * n_blocks + block * n_rows) * kTilesOfBlock * kBf16RowBytes,
                   n_rows};
      }
      const size_t n_rows = pair[0].n_rows + pair[1].n_rows;
      if (!whole && slab > 0) edge.exchange(args, vector, first, n_rows, true);
      const SumPlace sums = {
          args.bias != nullptr ? bias[0][0] : nullptr, slab == 0,
          whole ? args.out + first * args.out_stride + vector * Isa::kLanes : edge.sums[0],
          whole ? args.out_stride : TileEdge<S>::kColumns};
      setting.set(pair[0].n_rows, pair[1].n_rows);
      if (pair[1].n_rows == 0) {
        multiply_tiles<1, S>(tiles, pair, slab_weights, n * kTilesOfBlock, next, sums);
      } else {
        multiply_tiles<2, S>(tiles, pair, slab_weights, n * kTilesOfBlock, next, sums);
      }
      if (!whole) edge.exchange(args, vector, first, n_rows, false);
    }
  }
}

// Multiplies all strips with weights of Strips<S> over some slabs.
template <template <size_t> class Strips>
void multiply_tile_slabs(Tiles& tiles, TileSetting<Tiles>& setting, const GemmArgs& args,
                         const TileSlabs& slabs) noexcept {
  size_t vector = args.n_begin / Isa::kLanes;
  const size_t end = end_vector(args);
  for (; vector + 2 * kHalves <= end; vector += 2 * kHalves) {
    Strips<2> weights{args, vector};
    multiply_tile_strips<Strips<2>, 2>(tiles, setting, args, weights, slabs, vector, end);
  }
  if (vector < end) {
    Strips<1> weights{args, vector};
    multiply_tile_strips<Strips<1>, 1>(tiles, setting, args, weights, slabs, vector, end);
  }
}

// If the activations do not stay in the cache, all strips use one slab of them after another.
template <template <size_t> class Strips>
void tile_bf16_gemm(const GemmArgs& args) noexcept {
  Tiles tiles;
  TileSetting<Tiles> setting(tiles, kBf16RowBytes);
  const size_t n_blocks = padded(args.k) / quant::kPackedBlock;
  const size_t n_slabs = (n_blocks + kTileSlabBlocks - 1) / kTileSlabBlocks;
  const size_t n_input_bytes = args.m * n_blocks * kTilesOfBlock * kBf16RowBytes;
  if (n_input_bytes <= kTileInputBytes)
    return multiply_tile_slabs<Strips>(tiles, setting, args, {n_blocks, n_slabs, 0, n_slabs});
  for (size_t slab = 0; slab < n_slabs; ++slab)
    multiply_tile_slabs<Strips>(tiles, setting, args, {n_blocks, n_slabs, slab, slab + 1});
}

constexpr ActivationLayout kTileBf16Input = {InputKind::kBF16, kTileGroupRows, kTileGroupRows,
                                             kBf16RowBytes, write_bf16};

}  // namespace
}  // namespace billow::kernels
