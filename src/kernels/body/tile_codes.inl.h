// Products of integer formats with tiles, for many rows. Sums of codes are exact, and the float
// operations on them are those of integer_product. So the results equal those of the base, bit for
// bit. A panel holds signed bytes: the codes minus the offset that made them unsigned. A strip's
// quads of a part of k are a tile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/integer_product.inl.h"
#include "kernels/body/products.inl.h"
#include "kernels/body/quantize.inl.h"
#include "kernels/body/tile_shapes.inl.h"
#include "kernels/body/vocabulary.inl.h"
#include "kernels/kernel_table.h"

namespace billow::kernels {
namespace {

// The strips that a signed panel is filled from.
template <quant::Packing P, size_t V>
struct SignedStrips : StripWeights<P, V> {
  using Base = StripWeights<P, V>;
  using Base::Base;
  Isa::Bytes codes(size_t quad, size_t v) const noexcept {
    constexpr int kZero = P.is_signed() ? Isa::kSignedBias : P.zero();
    return Base::codes(quad, v) - static_cast<uint8_t>(kZero);
  }
};

// To tiles, panels of all codes are the same.
constexpr quant::Packing tile_packing(quant::Packing p) { return {8, p.scales_per_32, p.offsets}; }

// Sums of two groups and two strips for one part of k. Tiles write them and vectors read them.
struct alignas(64) TileSums {
  int32_t values[2][kTileGroupRows][2 * quant::kStripRows];
};

// Groups of rows and a panel of S strips over a slab of k.
template <quant::Packing P, size_t S>
struct TileSlab {
  static constexpr size_t kVectors = S * kHalves;
  static constexpr size_t kScales = P.scales_per_32;
  static constexpr size_t kPartQuads = kInputQuads / kScales;
  static constexpr size_t kRowStride = 2 * quant::kStripRows;   // of sums and of totals
  static constexpr size_t kQuadStride = kVectors * kLaneBytes;  // S rows of a tile
  using Panel = PanelWeights<P, kVectors>;

  Tiles& tiles;
  const uint8_t* panel;
  const TileGroup (&groups)[2];
  float (&acc)[2][kTileGroupRows][2 * quant::kStripRows];

  template <int I>
  void load_group(size_t part) const noexcept {
    const TileGroup& group = groups[I];
    const std::byte* at = group.at + part / kScales * group.n_rows * kActivationRowBytes +
                          part % kScales * (kActivationGroup / kScales);
    tiles.template load<4 + I>(at, kActivationGroup);
  }

  // Computes the sums of one part of k, counted from the slab's first part.
  template <size_t G>
  void sum_part(size_t part, TileSums& sums) const noexcept {
    constexpr size_t kParts = parts_of_block(P);
    const uint8_t* quads =
        panel + part / kParts * Panel::kBlockBytes + part % kParts * kPartQuads * kQuadStride;
    tiles.template load<6>(quads, kQuadStride);
    if constexpr (S == 2) tiles.template load<7>(quads + kQuadBytes, kQuadStride);
    load_group<0>(part);
    if constexpr (G == 2) load_group<1>(part);
    each_tile<G, S>([&](auto g, auto s) {
      constexpr int kSum = 2 * decltype(g)::value + decltype(s)::value;
      tiles.template zero<kSum>();
      tiles.template dot_codes<kSum, 4 + decltype(g)::value, 6 + decltype(s)::value>();
      tiles.template store<kSum>(&sums.values[g][0][s * quant::kStripRows],
                                 sizeof sums.values[0][0]);
    });
  }

  // Processes the sums of n parts from `first` on as multiply() of integer_product does, for vector
  // v and N rows of group g from `row` on. The totals stay in registers.
  template <size_t N>
  void add_rows(size_t first, size_t n, const TileSums* sums, size_t g, size_t v,
                size_t row) const noexcept {
    constexpr size_t kParts = parts_of_block(P);
    const size_t n_rows = groups[g].n_rows;
    float* at = &acc[g][row][v * Isa::kLanes];
    F total[N];
#pragma GCC unroll 8
    for (size_t j = 0; j < N; ++j) total[j] = Isa::load(at + j * kRowStride);
    for (size_t i = 0; i < n; ++i) {
      const size_t part = first + i;
      const Panel weights = {panel + part / kParts * Panel::kBlockBytes, 0};
      const auto* scales = reinterpret_cast<const float*>(
                               groups[g].at + part / kScales * n_rows * kActivationRowBytes +
                               n_rows * kActivationGroup) +
                           row;
      const float* row_sums = scales + (4 + (kScales == 2 ? part % kScales : 2)) * n_rows;
      const F scale = weights.scale(part % kParts, v);
      const int32_t* sum_at = &sums[i].values[g][row][v * Isa::kLanes];
#pragma GCC unroll 8
      for (size_t j = 0; j < N; ++j) {
        Isa::Ints sum;
        __builtin_memcpy(&sum, sum_at + j * kRowStride, sizeof sum);
        total[j] = Isa::fma(Isa::to_float(sum), scale * Isa::set1(scales[j]), total[j]);
      }
      if constexpr (P.offsets) {
        const F offset = weights.offset(part % kParts, v);
#pragma GCC unroll 8
        for (size_t j = 0; j < N; ++j)
          total[j] = Isa::fma(offset, Isa::set1(row_sums[j]), total[j]);
      }
    }
#pragma GCC unroll 8
    for (size_t j = 0; j < N; ++j) Isa::store(at + j * kRowStride, total[j]);
  }

  // The same for all rows of group g and all vectors.
  void add_parts(size_t first, size_t n, const TileSums* sums, size_t g) const noexcept {
    const size_t n_rows = groups[g].n_rows;
    for (size_t v = 0; v < kVectors; ++v) {
      size_t row = 0;
      for (; row + 8 <= n_rows; row += 8) add_rows<8>(first, n, sums, g, v, row);
      for (; row + 4 <= n_rows; row += 4) add_rows<4>(first, n, sums, g, v, row);
      for (; row < n_rows; ++row) add_rows<1>(first, n, sums, g, v, row);
    }
  }

  // Tiles compute some parts of k while vectors process the sums of the previous ones. A vector
  // that is read too early waits until the tile is stored.
  template <size_t G>
  void add(size_t n_blocks) const noexcept {
    constexpr size_t kAtOnce = 4;
    TileSums sums[2][kAtOnce];
    const size_t n_parts = n_blocks * parts_of_block(P);
    const auto sum_parts = [&](size_t first, TileSums* to) {
      for (size_t i = 0; i < kAtOnce && first + i < n_parts; ++i) sum_part<G>(first + i, to[i]);
    };
    sum_parts(0, sums[0]);
    size_t now = 0;
    for (size_t part = 0; part < n_parts; part += kAtOnce, now ^= 1) {
      sum_parts(part + kAtOnce, sums[now ^ 1]);
      const size_t n = n_parts - part < kAtOnce ? n_parts - part : kAtOnce;
      for (size_t g = 0; g < G; ++g) add_parts(part, n, sums[now], g);
    }
  }
};

// Computes two groups of rows from `row` on (the second may be empty), over the slab of `place`.
template <quant::Packing P, size_t S>
void tile_slab(Tiles& tiles, const GemmArgs& args, const PanelPlace& place, size_t row,
               const TileGroup (&groups)[2]) noexcept {
  constexpr size_t kVectors = S * kHalves;
  alignas(64) float acc[2][kTileGroupRows][2 * quant::kStripRows];
  const auto each_vector = [&](auto use) {
    for (size_t g = 0; g < 2; ++g) {
      const size_t first = row + (g == 0 ? 0 : groups[0].n_rows);
      for (size_t j = 0; j < groups[g].n_rows; ++j) {
        float* out = args.out + (first + j) * args.out_stride + place.vector * Isa::kLanes;
        for (size_t v = 0; v < kVectors; ++v) {
          use(&acc[g][j][v * Isa::kLanes], out + v * Isa::kLanes, v,
              lanes_of(args, place.vector + v));
        }
      }
    }
  };
  each_vector([&](float* at, const float* out, size_t, size_t lanes) {
    Isa::store(at, place.first || lanes == 0 ? Isa::zero() : load_lanes(out, lanes));
  });
  const TileSlab<P, S> slab = {tiles, place.panel, groups, acc};
  if (groups[1].n_rows == 0) {
    slab.template add<1>(place.n_blocks);
  } else {
    slab.template add<2>(place.n_blocks);
  }
  each_vector([&](const float* at, float* out, size_t v, size_t lanes) {
    const bool last = place.factors != nullptr;
    const F factor = last ? Isa::load(place.factors + v * Isa::kLanes) : Isa::set1(1.0f);
    const F bias = last ? bias_of(args, place.vector + v, lanes) : Isa::zero();
    if (lanes != 0) store_lanes(out, Isa::load(at) * factor + bias, lanes);
  });
}

// Computes all rows with S strips of outputs.
template <quant::Packing P, size_t S>
void multiply_strips(Tiles& tiles, TileSetting<Tiles>& setting, const GemmArgs& args,
                     size_t vector) noexcept {
  constexpr size_t kVectors = S * kHalves;
  constexpr size_t kSlabBlocks = 8;
  constexpr quant::Packing kPanel = tile_packing(P);
  using Panel = PanelWeights<kPanel, kVectors>;
  alignas(64) uint8_t panel[kSlabBlocks * Panel::kBlockBytes];
  alignas(64) float factors[kVectors * Isa::kLanes];
  for (size_t v = 0; v < kVectors; ++v)
    Isa::store(factors + v * Isa::kLanes, IntegerProduct<P>::factor(args, vector + v));
  const RowGroups groups = {args.m, (args.m + kTileGroupRows - 1) / kTileGroupRows};
  const size_t n_blocks = padded(args.k) / quant::kPackedBlock;
  constexpr size_t kRowBytes = kInputsOfBlock * kActivationRowBytes;  // for a block of 64
  for (size_t block = 0; block < n_blocks; block += kSlabBlocks) {
    const size_t left = n_blocks - block;
    const size_t n = left < kSlabBlocks ? left : kSlabBlocks;
    Panel::fill(SignedStrips<P, kVectors>(args, vector, block), n, panel);
    const PanelPlace place = {panel, 0, vector, block == 0, left == n ? factors : nullptr, n};
    for (size_t g = args.group_begin; g < args.group_end; g += 2) {
      TileGroup pair[2];
      for (size_t i = 0; i < 2 && g + i < args.group_end; ++i) {
        const size_t row = groups.begin(g + i);
        const size_t n_rows = groups.begin(g + i + 1) - row;
        pair[i] = {args.input + (row * n_blocks + block * n_rows) * kRowBytes, n_rows};
      }
      setting.set(pair[0].n_rows, pair[1].n_rows);
      tile_slab<kPanel, S>(tiles, args, place, groups.begin(g), pair);
    }
  }
}

// The base computes few rows.
template <class Format>
void tile_gemm(const GemmArgs& args) noexcept {
  constexpr quant::Packing kPacking = Format::kPacking;
  if (args.m <= kFewRows) return kTileBase.of(Format::kType).gemm(args);
  Tiles tiles;
  TileSetting<Tiles> setting(tiles, kActivationGroup / kPacking.scales_per_32);
  size_t vector = args.n_begin / Isa::kLanes;
  const size_t end = end_vector(args);
  for (; vector + 2 * kHalves <= end; vector += 2 * kHalves)
    multiply_strips<kPacking, 2>(tiles, setting, args, vector);
  if (vector < end) multiply_strips<kPacking, 1>(tiles, setting, args, vector);
}

constexpr ActivationLayout kTileInput = {InputKind::kCodes, kFewRows, kTileGroupRows,
                                         kActivationRowBytes, quantize_group};

}  // namespace
}  // namespace billow::kernels
