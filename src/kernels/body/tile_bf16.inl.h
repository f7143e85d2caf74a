// Products of BF16 by tiles, for any number of rows: 32 of k at a time, in order, added to sums of
// 32 bits that stay in tiles. A strip's block of 32 of k is a tile as it lies.

template <size_t S>
struct Bf16Tiles {
  Tiles& tiles;
  const GemmArgs& args;
  size_t vector;

  // Sums of the groups go to `sums`.
  template <size_t G>
  void add(const TileGroup (&groups)[2], size_t prefetch_bytes,
           float (&sums)[2][kTileGroupRows][2 * quant::kStripRows]) const noexcept {
    constexpr size_t kTileBytes = size_t{16} * 64;
    const uint8_t* first = strip_of<quant::BF16::kPacking>(args, vector);
    const uint8_t* second = strip_of<quant::BF16::kPacking>(args, vector + (S - 1) * kHalves);
    each_tile<G, S>([&](auto g, auto s) {
      tiles.template zero<2 * decltype(g)::value + decltype(s)::value>();
    });
    for (size_t i = 0; i < padded(args.k) / kActivationGroup; ++i) {
      for (size_t at = i * kTileBytes; prefetch_bytes != 0 && at < (i + 1) * kTileBytes; at += 64) {
        __builtin_prefetch(first + at + prefetch_bytes);
        if constexpr (S == 2) __builtin_prefetch(second + at + prefetch_bytes);
      }
      tiles.template load<6>(first + i * kTileBytes, 64);
      if constexpr (S == 2) tiles.template load<7>(second + i * kTileBytes, 64);
      tiles.template load<4>(groups[0].at + i * groups[0].n_rows * kBf16RowBytes, kBf16RowBytes);
      if constexpr (G == 2) {
        tiles.template load<5>(groups[1].at + i * groups[1].n_rows * kBf16RowBytes, kBf16RowBytes);
      }
      each_tile<G, S>([&](auto g, auto s) {
        tiles.template dot_bf16<2 * decltype(g)::value + decltype(s)::value, 4 + decltype(g)::value,
                                6 + decltype(s)::value>();
      });
    }
    each_tile<G, S>([&](auto g, auto s) {
      tiles.template store<2 * decltype(g)::value + decltype(s)::value>(
          &sums[g][0][s * quant::kStripRows], sizeof sums[0][0]);
    });
  }
};

template <size_t S>
void multiply_bf16_strips(Tiles& tiles, TileSetting<Tiles>& setting, const GemmArgs& args,
                          size_t vector) noexcept {
  const RowGroups groups = {args.m, (args.m + kTileGroupRows - 1) / kTileGroupRows};
  const Bf16Tiles<S> product = {tiles, args, vector};
  for (size_t g = args.group_begin; g < args.group_end; g += 2) {
    TileGroup pair[2];
    for (size_t i = 0; i < 2 && g + i < args.group_end; ++i) {
      const size_t row = groups.begin(g + i);
      pair[i] = {args.input + row * (padded(args.k) / kActivationGroup) * kBf16RowBytes,
                 groups.begin(g + i + 1) - row};
    }
    alignas(64) float sums[2][kTileGroupRows][2 * quant::kStripRows];
    const size_t prefetch_bytes = g == args.group_begin ? args.prefetch_bytes : 0;
    setting.set(pair[0].n_rows, pair[1].n_rows);
    if (pair[1].n_rows == 0) {
      product.template add<1>(pair, prefetch_bytes, sums);
    } else {
      product.template add<2>(pair, prefetch_bytes, sums);
    }
    for (size_t j = 0; j < pair[0].n_rows + pair[1].n_rows; ++j) {
      const float* row = j < pair[0].n_rows ? sums[0][j] : sums[1][j - pair[0].n_rows];
      float* out = args.out + (groups.begin(g) + j) * args.out_stride;
      for (size_t v = 0; v < S * kHalves; ++v) {
        const size_t lanes = lanes_of(args, vector + v);
        if (lanes == 0) continue;
        store_lanes(out + (vector + v) * Isa::kLanes, Isa::load(row + v * Isa::kLanes), lanes);
      }
    }
  }
}

inline void tile_bf16_gemm(const GemmArgs& args) noexcept {
  Tiles tiles;
  TileSetting<Tiles> setting(tiles, kBf16RowBytes);
  size_t vector = args.n_begin / Isa::kLanes;
  const size_t end = end_vector(args);
  for (; vector + 2 * kHalves <= end; vector += 2 * kHalves)
    multiply_bf16_strips<2>(tiles, setting, args, vector);
  if (vector < end) multiply_bf16_strips<1>(tiles, setting, args, vector);
}

constexpr InputForm kTileBf16Input = {InputKind::kBF16, kTileGroupRows, kTileGroupRows,
                                      kBf16RowBytes, write_bf16};
