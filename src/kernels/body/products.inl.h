// Products with packed weights (quant/packing.h). A vector's lanes are outputs. Few rows read
// weights directly from the strips, in one pass over them for each group of rows. For many rows, a
// slab (some blocks of k) of weights is decoded into a panel, which all rows use. Then the next
// slab follows. A Product (integer_product, float_product) defines how weights are read and
// multiplied.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/strips.inl.h"
#include "kernels/kernel_table.h"
#include "quant/packing.h"

namespace billow::kernels {
namespace {

constexpr size_t kFewRows = 8;
// Rows that use one panel after another before the next rows do.
constexpr size_t kRowsOfBlock = 512;

// A group of rows, and their inputs.
struct GroupPlace {
  size_t row;
  const std::byte* input;
};

// Computes V vectors of outputs of the M rows of a group.
template <class Product, size_t V, size_t M>
inline void few_tile(const GemmArgs& args, const GroupPlace& group, size_t vector) noexcept {
  using Strips = typename Product::template Strips<V>;
  F acc[V][M];
  for (size_t v = 0; v < V; ++v)
    for (size_t j = 0; j < M; ++j) acc[v][j] = Isa::zero();
  Product::template add<Strips, V, M>(Strips(args, vector, 0),
                                      typename Product::template Rows<M>{group.input},
                                      padded(args.k) / quant::kPackedBlock, acc);
  for (size_t v = 0; v < V; ++v) {
    const size_t lanes = lanes_of(args, vector + v);
    if (lanes == 0) continue;
    const F factor = Product::factor(args, vector + v);
    const F bias = bias_of(args, vector + v, lanes);
    for (size_t j = 0; j < M; ++j) {
      store_lanes(args.out + (group.row + j) * args.out_stride + (vector + v) * Isa::kLanes,
                  acc[v][j] * factor + bias, lanes);
    }
  }
}

// Computes vectors [vector, end) of outputs of the M rows of a group.
template <class Product, size_t M>
void multiply_few(const GemmArgs& args, const GroupPlace& group, size_t vector,
                  size_t end) noexcept {
  constexpr size_t kVectors = M <= Isa::kFewVectors[0] ? 4 : M <= Isa::kFewVectors[1] ? 2 : 1;
  for (; vector + kVectors <= end; vector += kVectors)
    few_tile<Product, kVectors, M>(args, group, vector);
  for (; vector < end; ++vector) few_tile<Product, 1, M>(args, group, vector);
}

using MultiplyFew = void (*)(const GemmArgs&, const GroupPlace&, size_t, size_t) noexcept;
template <class Product, size_t... M>
constexpr MultiplyFew multiply_few_of(size_t n_rows, std::index_sequence<M...>) noexcept {
  constexpr MultiplyFew kFew[] = {multiply_few<Product, M + 1>...};
  return kFew[n_rows - 1];
}

// Passes all groups over a strip while it is in the caches. The first group prefetches it.
template <class Product>
void multiply_by_passes(const GemmArgs& args, const RowGroups& groups) noexcept {
  const size_t row_bytes = padded(args.k) / kActivationGroup * Product::kBlockRowBytes;
  const size_t last = end_vector(args);
  size_t vector = args.n_begin / Isa::kLanes;
  GemmArgs cached = args;
  cached.prefetch_bytes = 0;
  while (vector < last) {
    const size_t end = groups.n == 1 ? last : vector + kHalves;
    for (size_t g = args.group_begin; g < args.group_end; ++g) {
      const size_t row = groups.begin(g);
      const MultiplyFew multiply =
          multiply_few_of<Product>(groups.begin(g + 1) - row, std::make_index_sequence<kFewRows>());
      multiply(g == args.group_begin ? args : cached, {row, args.input + row * row_bytes}, vector,
               end);
    }
    vector = end;
  }
}

// The place of a panel in a product.
struct PanelPlace {
  const uint8_t* panel;
  int log2;
  size_t vector;         // its first vector
  bool first;            // first slab: sums begin here; later slabs continue the sums in `out`
  const float* factors;  // for the outputs, at the last slab; otherwise null
  size_t n_blocks;
};

// Computes V vectors of outputs of M rows from `row` on. `inputs` are their inputs at the slab's
// first k.
template <class Product, size_t V, size_t M>
void panel_tile(const GemmArgs& args, const PanelPlace& place, size_t row,
                const std::byte* inputs) noexcept {
  F acc[V][M];
  float* out[V];
  size_t lanes[V];
  for (size_t v = 0; v < V; ++v) {
    lanes[v] = lanes_of(args, place.vector + v);
    out[v] = args.out + row * args.out_stride + (place.vector + v) * Isa::kLanes;
    for (size_t j = 0; j < M; ++j) {
      acc[v][j] = place.first || lanes[v] == 0 ? Isa::zero()
                                               : load_lanes(out[v] + j * args.out_stride, lanes[v]);
    }
  }
  Product::template add<typename Product::template Panel<V>, V, M>(
      Product::template panel<V>(place.panel, place.log2),
      typename Product::template Rows<M>{inputs}, place.n_blocks, acc);
  for (size_t v = 0; v < V; ++v) {
    if (lanes[v] == 0) continue;
    const bool last = place.factors != nullptr;
    const F factor = last ? Isa::load(place.factors + v * Isa::kLanes) : Isa::set1(1.0f);
    const F bias = last ? bias_of(args, place.vector + v, lanes[v]) : Isa::zero();
    for (size_t j = 0; j < M; ++j)
      store_lanes(out[v] + j * args.out_stride, acc[v][j] * factor + bias, lanes[v]);
  }
}

using PanelTile = void (*)(const GemmArgs&, const PanelPlace&, size_t, const std::byte*) noexcept;
template <class Product, size_t V, size_t... M>
constexpr PanelTile panel_tile_of(size_t n_rows, std::index_sequence<M...>) noexcept {
  constexpr PanelTile kTiles[] = {panel_tile<Product, V, M + 1>...};
  return kTiles[n_rows - 1];
}

template <class Product, size_t V>
void multiply_many(const GemmArgs& args, const RowGroups& groups, size_t vector) noexcept {
  using Panel = typename Product::template Panel<V>;
  using Strips = typename Product::template Strips<V>;
  alignas(64) uint8_t panel[Product::kSlabBlocks * Panel::kBlockBytes];
  alignas(64) float factors[V * Isa::kLanes];
  for (size_t v = 0; v < V; ++v)
    Isa::store(factors + v * Isa::kLanes, Product::factor(args, vector + v));
  const size_t n_blocks = padded(args.k) / quant::kPackedBlock;
  constexpr size_t kRowBytes = kInputsOfBlock * Product::kBlockRowBytes;  // for a block of 64
  for (size_t block = 0; block < n_blocks; block += Product::kSlabBlocks) {
    const size_t left = n_blocks - block;
    const size_t n = left < Product::kSlabBlocks ? left : Product::kSlabBlocks;
    Panel::fill(Strips(args, vector, block), n, panel);
    const PanelPlace place = {
        panel, Product::kLog2, vector, block == 0, left == n ? factors : nullptr, n};
    for (size_t g = args.group_begin; g < args.group_end; ++g) {
      const size_t row = groups.begin(g);
      const size_t n_rows = groups.begin(g + 1) - row;
      const PanelTile tile = panel_tile_of<typename Product::PanelProduct, V>(
          n_rows, std::make_index_sequence<Product::kGroupRows>());
      tile(args, place, row, args.input + (row * n_blocks + block * n_rows) * kRowBytes);
    }
  }
}

// Computes vectors [vector, end) of outputs, V of them at a time.
template <class Product, size_t V>
void multiply_vectors(const GemmArgs& args, const RowGroups& groups, size_t vector,
                      size_t end) noexcept {
  for (; vector + V <= end; vector += V) multiply_many<Product, V>(args, groups, vector);
  if constexpr (V > 1) multiply_vectors<Product, V - 1>(args, groups, vector, end);
}

template <class Product>
void gemm(const GemmArgs& args) noexcept {
  if (args.m <= kFewRows) return multiply_by_passes<Product>(args, {args.m, 1});
  const RowGroups groups = {args.m, (args.m + Product::kGroupRows - 1) / Product::kGroupRows};
  if (groups.n <= Product::kMaxPasses) return multiply_by_passes<Product>(args, groups);
  // The outputs of a block of rows stay in the caches from slab to slab.
  constexpr size_t kGroupsOfBlock = kRowsOfBlock / Product::kGroupRows;
  GemmArgs block = args;
  for (; block.group_begin < args.group_end; block.group_begin = block.group_end) {
    const size_t left = args.group_end - block.group_begin;
    block.group_end = block.group_begin + (left < kGroupsOfBlock ? left : kGroupsOfBlock);
    multiply_vectors<Product, Product::kPanelVectors>(block, groups, args.n_begin / Isa::kLanes,
                                                      end_vector(args));
  }
}

}  // namespace
}  // namespace billow::kernels
