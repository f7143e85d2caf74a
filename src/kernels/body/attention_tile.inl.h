// The inner loops of attention: R query rows against one block of 64 positions, R at most
// Isa::kAttentionRows so that the sums stay in registers. Each score and each output is summed in
// the same order whatever R is.

// Vectors of positions, or of a value's dimensions, that R rows keep sums of at once.
template <size_t R>
constexpr size_t kStripsFor = 3 * R <= Isa::kAttentionRows ? 4 : 2;

// Asks for `bytes` bytes of the next block: into the second level of caches, as the first one is
// full of this block. The address may be any.
inline void prefetch(uintptr_t begin, size_t bytes) noexcept {
  for (size_t i = 0; i < bytes; i += 64) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a pointer may not point beyond its array
    __builtin_prefetch(reinterpret_cast<const void*>(begin + i), 0, 2);
  }
}

// R rows of a query, scaled, as [k_len][R].
inline void pack_queries(const float* const* rows, size_t n_rows, size_t k_len, float factor,
                         float* packed) noexcept {
  for (size_t d = 0; d < k_len; ++d) {
    for (size_t r = 0; r < n_rows; ++r) *packed++ = rows[r][d] * factor;
  }
}

// One group of a query as rotated codes; returns its scale. What is not finite makes that so too.
template <size_t N>
inline float encode_query_group(const float* x, int8_t* codes) noexcept {
  float rotated[N];
  rotate_group<N>(x, rotated);
  const float largest = greatest_magnitude(rotated, N);
  const bool usable = largest > 1e-30f && largest < 1e30f;
  encode_group<N>(rotated, usable ? 127.0f / largest : 0.0f, codes);
  return largest * (1.0f / 127.0f);
}

// The same as codes with a scale for each 32, rotated, where keys are: [k_len / 4][R][4], then
// [groups][R] scales, then [groups][R] sums of codes times what dot4_signed wants taken off.
inline void pack_query_codes(const float* const* rows, size_t n_rows, size_t k_len, float factor,
                             float* packed) noexcept {
  const size_t n_groups = kv_groups(k_len);
  auto* codes = reinterpret_cast<int8_t*>(packed);
  float* scales = packed + n_rows * k_len / 4;
  auto* offsets = reinterpret_cast<int32_t*>(scales + n_rows * n_groups);
  for (size_t r = 0; r < n_rows; ++r) {
    for (size_t g = 0; g < n_groups; ++g) {
      const size_t at = g * kKvGroup;
      const size_t n = k_len - at < kKvGroup ? k_len - at : kKvGroup;
      int8_t group[kKvGroup] = {};
      const auto encode = n == kKvGroup ? encode_query_group<kKvGroup> : encode_query_group<16>;
      scales[g * n_rows + r] = encode(rows[r] + at, group) * factor;
      int32_t sum = 0;
      for (size_t i = 0; i < kKvGroup; ++i) sum += group[i];
      for (size_t i = 0; i < n; i += 4) {
        __builtin_memcpy(codes + ((at + i) / 4 * n_rows + r) * 4, group + i, 4);
      }
      offsets[g * n_rows + r] = -Isa::kSignedBias * sum;
    }
  }
}

// scores[r][p] = sum over d of K[d][p] * q[d][r], for the positions p in [begin, end) at least.
// From `wanted` lie the keys that are wanted next.
template <size_t R>
inline void score_halves(const AttentionArgs& args, const std::byte* k_block, uintptr_t wanted,
                         const float* q, size_t begin, size_t end, float* scores) noexcept {
  constexpr size_t kStrips = kStripsFor<R>;
  constexpr size_t kStep = kStrips * Isa::kLanes;
  const auto* keys = reinterpret_cast<const uint16_t*>(k_block);
  for (size_t at = begin / kStep * kStep; at < end; at += kStep) {
    F acc[R][kStrips];
    for (size_t r = 0; r < R; ++r) {
      for (size_t s = 0; s < kStrips; ++s) acc[r][s] = Isa::zero();
    }
    for (size_t d = 0; d < args.k_len; ++d) {
      const uint16_t* row = keys + d * kBlockPositions + at;
      prefetch(wanted + 2 * (d * kBlockPositions + at), 2 * kStep);
      F key[kStrips];
      for (size_t s = 0; s < kStrips; ++s) key[s] = Isa::load_f16(row + s * Isa::kLanes);
      for (size_t r = 0; r < R; ++r) {
        const F query = Isa::set1(q[d * R + r]);
        for (size_t s = 0; s < kStrips; ++s) acc[r][s] = Isa::fma(key[s], query, acc[r][s]);
      }
    }
    for (size_t r = 0; r < R; ++r) {
      for (size_t s = 0; s < kStrips; ++s)
        Isa::store(scores + r * kBlockPositions + at + s * Isa::kLanes, acc[r][s]);
    }
  }
}

// The same where keys are codes: an exact sum over each 32 of d, times both scales.
template <size_t R>
inline void score_codes(const AttentionArgs& args, const std::byte* k_block, uintptr_t wanted,
                        const float* q, size_t begin, size_t end, float* scores) noexcept {
  constexpr size_t kStrips = kStripsFor<R> / (R > 7 ? 2 : 1);  // integer sums want registers too
  constexpr size_t kStep = kStrips * Isa::kLanes;
  const size_t n_groups = kv_groups(args.k_len);
  const auto* keys = reinterpret_cast<const uint8_t*>(k_block);
  const auto* key_scales =
      reinterpret_cast<const uint16_t*>(k_block + kv_code_bytes(KvType::kQ8_0, args.k_len));
  const auto* codes = reinterpret_cast<const int8_t*>(q);
  const float* scales = q + R * args.k_len / 4;
  const auto* offsets = reinterpret_cast<const int32_t*>(scales + R * n_groups);
  for (size_t at = begin / kStep * kStep; at < end; at += kStep) {
    F acc[R][kStrips];
    for (size_t r = 0; r < R; ++r) {
      for (size_t s = 0; s < kStrips; ++s) acc[r][s] = Isa::zero();
    }
    for (size_t g = 0; g < n_groups; ++g) {
      Isa::Ints sum[R][kStrips];
      for (size_t r = 0; r < R; ++r) {
        for (size_t s = 0; s < kStrips; ++s) sum[r][s] = Isa::ints(offsets[g * R + r]);
      }
      const size_t quad_end = (g + 1) * kKvGroup < args.k_len ? (g + 1) * kKvGroup : args.k_len;
      for (size_t quad = g * kKvGroup / 4; quad < quad_end / 4; ++quad) {
        const uint8_t* row = keys + (quad * kBlockPositions + at) * 4;
        Isa::Bytes key[kStrips];
        for (size_t s = 0; s < kStrips; ++s)
          key[s] = Isa::prepare_signed(Isa::load_bytes(row + s * Isa::kLanes * 4));
        for (size_t r = 0; r < R; ++r) {
          const Isa::Bytes query = Isa::broadcast4(codes + (quad * R + r) * 4);
          for (size_t s = 0; s < kStrips; ++s)
            sum[r][s] = Isa::dot4_signed(sum[r][s], key[s], query);
        }
      }
      F scale[kStrips];
      const uint16_t* group_scales = key_scales + g * kBlockPositions + at;
      // Codes are asked for with the values, which take longer; here what lies behind them.
      prefetch(wanted + 2 * kBlockPositions * (args.k_len + 2 * g), at == 0 ? 256 : 0);
      for (size_t s = 0; s < kStrips; ++s) scale[s] = Isa::load_f16(group_scales + s * Isa::kLanes);
      for (size_t r = 0; r < R; ++r) {
        const F mine = Isa::set1(scales[g * R + r]);
        for (size_t s = 0; s < kStrips; ++s)
          acc[r][s] = Isa::fma(Isa::to_float(sum[r][s]) * mine, scale[s], acc[r][s]);
      }
    }
    for (size_t r = 0; r < R; ++r) {
      for (size_t s = 0; s < kStrips; ++s)
        Isa::store(scores + r * kBlockPositions + at + s * Isa::kLanes, acc[r][s]);
    }
  }
}

struct HalfValues {
  const uint16_t* p;
  size_t v_len;
  F at(size_t position, size_t dim) const noexcept {
    return Isa::load_f16(p + position * v_len + dim);
  }
};

struct CodeValues {
  const int8_t* p;
  size_t v_len;
  F at(size_t position, size_t dim) const noexcept {
    return Isa::load_i8(p + position * v_len + dim);
  }
};

// out[r][i] = out[r][i] * shrink[r] + sum over p in [begin, end) of weights[r][p] * V[p][i], for S
// vectors of i from `dim` on. Rows of `out` are `stride` floats apart. From `wanted` lies what is
// wanted next: for all dimensions together, 128 * v_len bytes.
template <size_t R, size_t S, class Values>
inline void add_strips(const Values& values, size_t dim, uintptr_t wanted, const float* weights,
                       size_t begin, size_t end, const float* shrink, float* out,
                       size_t stride) noexcept {
  constexpr size_t kWantedBytes = 2 * S * Isa::kLanes;  // with each position
  F acc[R][S];
  for (size_t r = 0; r < R; ++r) {
    for (size_t s = 0; s < S; ++s) acc[r][s] = Isa::zero();
  }
  for (size_t p = begin; p < end; ++p) {
    prefetch(wanted + 2 * kBlockPositions * dim + p * kWantedBytes, kWantedBytes);
    F value[S];
    for (size_t s = 0; s < S; ++s) value[s] = values.at(p, dim + s * Isa::kLanes);
    for (size_t r = 0; r < R; ++r) {
      const F weight = Isa::set1(weights[r * kBlockPositions + p]);
      for (size_t s = 0; s < S; ++s) acc[r][s] = Isa::fma(value[s], weight, acc[r][s]);
    }
  }
  for (size_t r = 0; r < R; ++r) {
    float* row = out + r * stride + dim;
    for (size_t s = 0; s < S; ++s, row += Isa::kLanes)
      Isa::store(row, Isa::fma(Isa::load(row), Isa::set1(shrink[r]), acc[r][s]));
  }
}

// The same for all dimensions in [dim, dim_end), a multiple of 16 of them.
template <size_t R, class Values>
inline void add_values(const Values& values, size_t dim, size_t dim_end, uintptr_t wanted,
                       const float* weights, size_t begin, size_t end, const float* shrink,
                       float* out, size_t stride) noexcept {
  constexpr size_t kStrips = kStripsFor<R>;
  for (; dim + kStrips * Isa::kLanes <= dim_end; dim += kStrips * Isa::kLanes) {
    add_strips<R, kStrips>(values, dim, wanted, weights, begin, end, shrink, out, stride);
  }
  for (; dim < dim_end; dim += Isa::kLanes) {
    add_strips<R, 1>(values, dim, wanted, weights, begin, end, shrink, out, stride);
  }
}

// Values as codes: a group's scales go into the weights.
template <size_t R>
inline void add_codes(const AttentionArgs& args, const std::byte* v_block, uintptr_t wanted,
                      const float* weights, size_t begin, size_t end, const float* shrink,
                      float* scaled, float* out, size_t stride) noexcept {
  const CodeValues values{reinterpret_cast<const int8_t*>(v_block), args.v_len};
  const auto* scales =
      reinterpret_cast<const uint16_t*>(v_block + kv_code_bytes(KvType::kQ8_0, args.v_len));
  for (size_t dim = 0; dim < args.v_len; dim += kKvGroup, scales += kBlockPositions) {
    for (size_t at = begin / Isa::kLanes * Isa::kLanes; at < end; at += Isa::kLanes) {
      const F scale = Isa::load_f16(scales + at);
      for (size_t r = 0; r < R; ++r) {
        const size_t i = r * kBlockPositions + at;
        Isa::store(scaled + i, Isa::load(weights + i) * scale);
      }
    }
    const size_t dim_end = dim + kKvGroup < args.v_len ? dim + kKvGroup : args.v_len;
    add_values<R>(values, dim, dim_end, wanted, scaled, begin, end, shrink, out, stride);
  }
}
