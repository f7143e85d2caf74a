// Products with packed weights (quant/packing.h). A vector's lanes are outputs: kHalves vectors
// make a strip. For each output and 32 (or 16) of k, in order: an exact integer sum, one float
// multiply-add with the product of scales, and one with the offset. That order is the same in every
// kernel here, so results do not depend on how many rows run together.
constexpr size_t kHalves = quant::kStripRows / Isa::kLanes;
constexpr size_t kQuads = quant::kPackedBlock / 4;
constexpr size_t kQuadBytes = quant::kStripRows * 4;

// The codes of quad q of a block, half h, unsigned (or signed for 8 bits).
template <quant::Packing P>
inline Isa::Bytes packed_codes(const uint8_t* codes, size_t q, size_t h) noexcept {
  const size_t lane_bytes = h * Isa::kLanes * 4;
  if constexpr (P.bits == 8) return Isa::load_bytes(codes + q * kQuadBytes + lane_bytes);
  const Isa::Bytes pair = Isa::load_bytes(codes + q / 2 * kQuadBytes + lane_bytes);
  const Isa::Bytes low = q % 2 == 0 ? pair & 15 : pair >> 4;
  const uint8_t* high = codes + kQuads / 2 * kQuadBytes;
  if constexpr (P.bits == 5) return Isa::bit_as_16(low, high + 8 * q, h * Isa::kLanes);
  if constexpr (P.bits == 6) {
    const Isa::Bytes bits = Isa::load_bytes(high + q / 4 * kQuadBytes + lane_bytes);
    const size_t j = q % 4;
    return low | ((j < 2 ? bits << (4 - 2 * j) : bits >> (2 * j - 4)) & 0x30);
  }
  return low;
}

template <quant::Packing P>
inline Isa::Ints dot_quad(Isa::Ints sum, Isa::Bytes w, Isa::Bytes x) noexcept {
  if constexpr (P.bits == 8) return Isa::dot4_signed(sum, w, x);
  return Isa::dot4(sum, w, x);
}

// One strip against M input rows: out[j][16 outputs].
template <quant::Packing P, size_t M>
inline void packed_strip(const PackedGemmArgs& args, const uint8_t* strip, size_t m0,
                         size_t n0) noexcept {
  constexpr size_t kParts = size_t{2} * P.scales_per_32;  // of a block, each with its scales
  constexpr size_t kPartQuads = kQuads / kParts;
  constexpr int kBias = P.bits == 8 ? Isa::kSignedBias : P.zero();
  const size_t stride = padded(args.input.k);
  for (size_t h = 0; h < kHalves; ++h) {
    F acc[M];
    const int8_t* x[M];
    for (size_t j = 0; j < M; ++j) {
      acc[j] = Isa::zero();
      x[j] = args.input.codes + (m0 + j) * stride;
    }
    const uint8_t* block = strip + quant::kStripRows * sizeof(float);
    for (size_t k = 0; k < stride; k += quant::kPackedBlock, block += P.block_bytes()) {
      const auto* scales =
          reinterpret_cast<const uint16_t*>(block + P.code_bytes()) + h * Isa::kLanes;
      for (size_t offset = 0; offset < P.block_bytes() && h == 0; offset += 64) {
        __builtin_prefetch(block + offset + args.prefetch_bytes);
      }
      for (size_t part = 0; part < kParts; ++part) {
        const size_t group = (k + part * kPartQuads * 4) / quant::kScaleGroup;
        Isa::Ints sum[M];
        for (size_t j = 0; j < M; ++j) {
          const int32_t* sums =
              args.input.code_sums + (m0 + j) * stride / quant::kScaleGroup + group;
          sum[j] = Isa::ints(-kBias * (P.scales_per_32 == 2 ? sums[0] : sums[0] + sums[1]));
        }
        for (size_t i = 0; i < kPartQuads; ++i) {
          const size_t q = part * kPartQuads + i;
          const Isa::Bytes w = packed_codes<P>(block, q, h);
          for (size_t j = 0; j < M; ++j)
            sum[j] = dot_quad<P>(sum[j], w, Isa::broadcast4(x[j] + k + 4 * q));
        }
        const F scale = Isa::load_f16(scales + part * quant::kStripRows);
        for (size_t j = 0; j < M; ++j) {
          const size_t at = ((m0 + j) * stride + k) / kActivationGroup + part / P.scales_per_32;
          acc[j] =
              Isa::fma(Isa::to_float(sum[j]), scale * Isa::set1(args.input.scales[at]), acc[j]);
        }
        if constexpr (P.offsets) {
          const F offset = Isa::load_f16(scales + (kParts + part) * quant::kStripRows);
          for (size_t j = 0; j < M; ++j) {
            const float* sums = args.input.sums + (m0 + j) * stride / quant::kScaleGroup + group;
            const float total = P.scales_per_32 == 2 ? sums[0] : sums[0] + sums[1];
            acc[j] = Isa::fma(offset, Isa::set1(total), acc[j]);
          }
        }
      }
    }
    const F factor = Isa::load(reinterpret_cast<const float*>(strip) + h * Isa::kLanes);
    const size_t first = n0 + h * Isa::kLanes;
    const size_t lanes = first >= args.n_end                ? 0
                         : args.n_end - first < Isa::kLanes ? args.n_end - first
                                                            : Isa::kLanes;
    for (size_t j = 0; j < M && lanes > 0; ++j) {
      store_lanes(args.out + (m0 + j) * args.out_stride + first, acc[j] * factor, lanes);
    }
  }
}

template <quant::Packing P>
void gemm_packed(const PackedGemmArgs& args) noexcept {
  const size_t strip_bytes = P.strip_bytes(args.input.k);
  for (size_t n0 = args.n_begin; n0 < args.n_end; n0 += quant::kStripRows) {
    const auto* strip =
        reinterpret_cast<const uint8_t*>(args.weight) + n0 / quant::kStripRows * strip_bytes;
    size_t m0 = 0;
    for (; m0 + Isa::kPackedTileM <= args.input.m; m0 += Isa::kPackedTileM) {
      packed_strip<P, Isa::kPackedTileM>(args, strip, m0, n0);
    }
    for (; m0 + 2 <= args.input.m; m0 += 2) packed_strip<P, 2>(args, strip, m0, n0);
    for (; m0 < args.input.m; ++m0) packed_strip<P, 1>(args, strip, m0, n0);
  }
}
