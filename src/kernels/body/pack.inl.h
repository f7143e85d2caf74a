// Brings 16 rows of weights into the packed form (quant/packing.h).

template <class Format>
inline void unpack_row(const std::byte* row, size_t k0, size_t n, int8_t* codes, float* scales,
                       float* offsets) noexcept {
  const auto* groups =
      reinterpret_cast<const typename Format::Group*>(row) + k0 / Format::kGroupLen;
  for (size_t g = 0; g < n / Format::kGroupLen; ++g) {
    const size_t at = g * Format::kGroupLen;
    Format::template unpack<Isa>(groups[g], codes + at, scales + at / quant::kScaleGroup,
                                 offsets + at / quant::kScaleGroup);
  }
  for (size_t i = n; i < padded(n); ++i) codes[i] = 0;
  for (size_t i = n / quant::kScaleGroup; i < padded(n) / quant::kScaleGroup; ++i)
    scales[i] = offsets[i] = 0.0f;
}

// A block of 64 k of 16 rows on its way: codes by quad as the packed form orders them, scales by
// row.
struct PackBlock {
  uint8_t codes[kQuads][quant::kStripRows][4];
  float scales[4][quant::kStripRows];
  float offsets[4][quant::kStripRows];
};

template <quant::Packing P>
inline void write_codes(const PackBlock& block, uint8_t* out) noexcept {
  const auto* codes = reinterpret_cast<const uint8_t*>(block.codes);
  if constexpr (P.bits == 8) {
    __builtin_memcpy(out, codes, sizeof block.codes);
    return;
  }
  for (size_t pair = 0; pair < kQuads / 2; ++pair) {
    const uint8_t* low = codes + 2 * pair * kQuadBytes;
    for (size_t i = 0; i < kQuadBytes; ++i) {
      out[pair * kQuadBytes + i] = static_cast<uint8_t>((low[i] & 15) | (low[kQuadBytes + i] << 4));
    }
  }
  uint8_t* high = out + kQuads / 2 * kQuadBytes;
  if constexpr (P.bits == 5) {
    for (size_t i = 0; i < kQuads * kQuadBytes; i += 8) {
      unsigned bits = 0;
      for (size_t j = 0; j < 8; ++j) bits |= ((codes[i + j] >> 4) & 1u) << j;
      high[i / 8] = static_cast<uint8_t>(bits);
    }
  }
  if constexpr (P.bits == 6) {
    for (size_t four = 0; four < kQuads / 4; ++four) {
      const uint8_t* from = codes + 4 * four * kQuadBytes;
      for (size_t i = 0; i < kQuadBytes; ++i) {
        unsigned bits = 0;
        for (size_t j = 0; j < 4; ++j) bits |= ((from[j * kQuadBytes + i] >> 4) & 3u) << (2 * j);
        high[four * kQuadBytes + i] = static_cast<uint8_t>(bits);
      }
    }
  }
}

// f16 scales (and offsets) of the block's parts, divided by each row's factor.
template <quant::Packing P>
inline void write_scales(const PackBlock& block, const float* inverse_factors,
                         uint8_t* out) noexcept {
  auto* halves = reinterpret_cast<uint16_t*>(out);
  constexpr size_t kParts = size_t{2} * P.scales_per_32;
  for (size_t part = 0; part < kParts; ++part) {
    const size_t group = P.scales_per_32 == 2 ? part : 2 * part;
    float values[quant::kStripRows];
    for (size_t r = 0; r < quant::kStripRows; ++r)
      values[r] = block.scales[group][r] * inverse_factors[r];
    for (size_t r = 0; r < quant::kStripRows; r += Isa::kLanes) {
      Isa::store_f16(halves + part * quant::kStripRows + r, Isa::load(values + r));
    }
    if constexpr (P.offsets) {
      for (size_t r = 0; r < quant::kStripRows; ++r)
        values[r] = block.offsets[group][r] * inverse_factors[r];
      for (size_t r = 0; r < quant::kStripRows; r += Isa::kLanes) {
        Isa::store_f16(halves + (kParts + part) * quant::kStripRows + r, Isa::load(values + r));
      }
    }
  }
}

inline bool exact_in_f16(float x) noexcept {
  uint16_t half[Isa::kLanes];
  float back[Isa::kLanes];
  Isa::store_f16(half, Isa::set1(x));
  Isa::store(back, Isa::load_f16(half));
  return back[0] == x;
}

// 1 where f16 holds all scales and offsets exactly, else the power of two just above the largest.
inline float row_factor(const float* scales, const float* offsets, size_t n) noexcept {
  bool exact = true;
  float largest = 0.0f;
  for (size_t i = 0; i < n; ++i) {
    exact = exact && exact_in_f16(scales[i]) && exact_in_f16(offsets[i]);
    largest = __builtin_fmaxf(
        largest, __builtin_fmaxf(__builtin_fabsf(scales[i]), __builtin_fabsf(offsets[i])));
  }
  if (exact || !(largest < 1e30f)) return 1.0f;
  int exponent = 0;
  (void)__builtin_frexpf(largest, &exponent);
  return __builtin_ldexpf(1.0f, exponent < -100 ? -100 : exponent);
}

// Scratch: codes[16][padded(k)], scales and offsets [16][padded(k) / 16].
template <class Format>
void pack_strip(const PackArgs& args) noexcept {
  constexpr quant::Packing kPacking = Format::kPacking;
  const size_t k_padded = padded(args.k);
  const size_t n_groups = k_padded / quant::kScaleGroup;
  float inverse_factors[quant::kStripRows];
  auto* factors = reinterpret_cast<float*>(args.out);
  for (size_t r = 0; r < quant::kStripRows; ++r) {
    float* scales = args.scales + r * n_groups;
    float* offsets = args.offsets + r * n_groups;
    if (r < args.n_rows) {
      unpack_row<Format>(args.weight + r * args.row_bytes, 0, args.k, args.codes + r * k_padded,
                         scales, offsets);
    } else {
      __builtin_memset(args.codes + r * k_padded, 0, k_padded);
      __builtin_memset(scales, 0, n_groups * sizeof(float));
      __builtin_memset(offsets, 0, n_groups * sizeof(float));
    }
    const float factor = row_factor(scales, offsets, n_groups);
    factors[r] = factor;
    inverse_factors[r] = 1.0f / factor;
  }
  auto* out = reinterpret_cast<uint8_t*>(args.out) + quant::kStripRows * sizeof(float);
  for (size_t k = 0; k < k_padded; k += quant::kPackedBlock, out += kPacking.block_bytes()) {
    PackBlock block;
    for (size_t r = 0; r < quant::kStripRows; ++r) {
      const int8_t* codes = args.codes + r * k_padded + k;
      for (size_t q = 0; q < kQuads; ++q) {
        for (size_t i = 0; i < 4; ++i)
          block.codes[q][r][i] = static_cast<uint8_t>(codes[4 * q + i] + kPacking.zero());
      }
      for (size_t g = 0; g < 4; ++g) {
        block.scales[g][r] = args.scales[r * n_groups + k / quant::kScaleGroup + g];
        block.offsets[g][r] = args.offsets[r * n_groups + k / quant::kScaleGroup + g];
      }
    }
    write_codes<kPacking>(block, out);
    write_scales<kPacking>(block, inverse_factors, out + kPacking.code_bytes());
  }
}
