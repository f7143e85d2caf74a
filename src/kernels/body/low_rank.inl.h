// Low-rank additions to rows of products: what adapters add.

inline F load_values(const float* p) noexcept { return Isa::load(p); }
inline F load_values(const uint16_t* p) noexcept { return Isa::load_f16(p); }

// One block of outputs; `lanes` of each vector count, all but those of a last block.
template <class Value>
void add_low_rank_block(const Value* b, size_t rank, const float* h, size_t n,
                        float* out) noexcept {
  constexpr size_t kVectors = kLowRankBlock / Isa::kLanes;
  F sums[kVectors];
  const auto lanes = [n](size_t v) {
    const size_t first = v * Isa::kLanes;
    return n <= first ? 0 : n - first < Isa::kLanes ? n - first : Isa::kLanes;
  };
  for (size_t v = 0; v < kVectors; ++v)
    sums[v] = lanes(v) == 0 ? Isa::zero() : load_lanes(out + v * Isa::kLanes, lanes(v));
  for (size_t j = 0; j < rank; ++j, b += kLowRankBlock) {
    const F factor = Isa::set1(h[j]);
    for (size_t v = 0; v < kVectors; ++v)
      sums[v] = Isa::fma(load_values(b + v * Isa::kLanes), factor, sums[v]);
  }
  for (size_t v = 0; v < kVectors; ++v)
    if (lanes(v) != 0) store_lanes(out + v * Isa::kLanes, sums[v], lanes(v));
}

template <class Value>
void add_low_rank_blocks(const LowRankArgs& args) noexcept {
  const Value* b = reinterpret_cast<const Value*>(args.b);
  for (size_t i = 0; i < args.n; i += kLowRankBlock, b += args.rank * kLowRankBlock) {
    const size_t n = args.n - i < kLowRankBlock ? args.n - i : kLowRankBlock;
    add_low_rank_block(b, args.rank, args.h, n, args.out + i);
  }
}

void add_low_rank(const LowRankArgs& args) noexcept {
  if (args.is_half)
    add_low_rank_blocks<uint16_t>(args);
  else
    add_low_rank_blocks<float>(args);
}
