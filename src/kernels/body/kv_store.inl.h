// Writing keys and values of one position into a KV block (kernels/kv_block.h).
inline void store_halves(const float* x, size_t n, uint16_t* out, size_t stride) noexcept {
  for (size_t i = 0; i < n; i += Isa::kLanes) {
    uint16_t halves[Isa::kLanes];
    Isa::store_f16(halves, Isa::load(x + i));
    for (size_t j = 0; j < Isa::kLanes; ++j) out[(i + j) * stride] = halves[j];
  }
}

// The greatest magnitude of n values, a multiple of 16; NaN where one of them is not finite.
inline float greatest_magnitude(const float* x, size_t n) noexcept {
  F extreme = Isa::zero();
  F probe = Isa::zero();  // becomes NaN, which the maximum may lose
  for (size_t i = 0; i < n; i += Isa::kLanes) {
    const F v = Isa::load(x + i);
    extreme = Isa::max(extreme, Isa::max(v, Isa::zero() - v));
    probe = probe + v * Isa::zero();
  }
  return Isa::largest(extreme) + Isa::sum(probe);
}

// One step of a Hadamard transform within vectors: lane i and lane i ^ H become their sum and the
// first less the second.
template <size_t H, size_t V>
inline void mix_lanes(F (&v)[V]) noexcept {
  if constexpr (H < Isa::kLanes) {
    float signs[Isa::kLanes];
    for (size_t i = 0; i < Isa::kLanes; ++i) signs[i] = i & H ? -1.0f : 1.0f;
    const F sign = Isa::load(signs);
    for (size_t i = 0; i < V; ++i) v[i] = Isa::fma(v[i], sign, Isa::exchange<H>(v[i]));
  }
}

// out = H x / sqrt(N) for N = 32 or 16, H the Hadamard matrix of +1 and -1. It is its own inverse
// and keeps dot products, and it spreads a value that is far above the others over the group, whose
// scale would otherwise be too coarse for the others.
template <size_t N>
inline void rotate_group(const float* x, float* out) noexcept {
  constexpr size_t kVectors = N / Isa::kLanes;
  F v[kVectors];
  for (size_t i = 0; i < kVectors; ++i) v[i] = Isa::load(x + i * Isa::kLanes);
  for (size_t h = kVectors / 2; h > 0; h /= 2) {
    for (size_t i = 0; i < kVectors; ++i) {
      if ((i & h) != 0) continue;
      const F sum = v[i] + v[i + h];
      v[i + h] = v[i] - v[i + h];
      v[i] = sum;
    }
  }
  mix_lanes<8>(v);
  mix_lanes<4>(v);
  mix_lanes<2>(v);
  mix_lanes<1>(v);
  const F factor = Isa::set1(N == 32 ? 0.17677670f : 0.25f);
  for (size_t i = 0; i < kVectors; ++i) Isa::store(out + i * Isa::kLanes, v[i] * factor);
}

// codes[i] = x[i] * inverse to the nearest, in -127 .. 127.
template <size_t N>
inline void encode_group(const float* x, float inverse, int8_t* codes) noexcept {
  for (size_t i = 0; i < N; ++i) {
    float t = x[i] * inverse;
    t = t > 127.0f ? 127.0f : t;
    t = t < -127.0f ? -127.0f : t;
    codes[i] = static_cast<int8_t>(static_cast<int>(t + (t < 0.0f ? -0.5f : 0.5f)));
  }
}

// One group of keys (rotated) or values as codes; returns its scale as F16. Values that are not
// finite, or too large for the scale, make it not finite; ones too small make 0.
template <size_t N>
inline uint16_t encode_kv_group(const float* x, bool rotate, int8_t* codes) noexcept {
  float rotated[N];
  if (rotate) {
    rotate_group<N>(x, rotated);
    x = rotated;
  }
  uint16_t halves[Isa::kLanes];
  Isa::store_f16(halves, Isa::set1(greatest_magnitude(x, N) / 127.0f));
  const float d = Isa::f16_to_f32(halves[0]);
  const bool usable = d > 0.0f && d < 65536.0f;
  encode_group<N>(x, usable ? 1.0f / d : 0.0f, codes);
  return halves[0];
}

// The values of one position, rotated if they are keys. They go to codes + stride * (quad of
// values), scales are 64 apart.
inline void store_codes(const float* x, size_t len, size_t within, std::byte* block,
                        size_t position_bytes, size_t quad_stride, bool rotate) noexcept {
  auto* codes = reinterpret_cast<int8_t*>(block) + within * position_bytes;
  auto* scales = reinterpret_cast<uint16_t*>(block + kv_code_bytes(KvType::kQ8_0, len)) + within;
  for (size_t at = 0; at < len; at += kKvGroup) {
    const size_t n = len - at < kKvGroup ? len - at : kKvGroup;
    int8_t group[kKvGroup];
    const auto encode = n == kKvGroup ? encode_kv_group<kKvGroup> : encode_kv_group<16>;
    scales[at / kKvGroup * kBlockPositions] = encode(x + at, rotate, group);
    for (size_t i = 0; i < n; i += 4) {
      __builtin_memcpy(codes + (at + i) / 4 * quad_stride, group + i, 4);
    }
  }
}

void store_kv(const StoreKvArgs& args) noexcept {
  if (args.type == KvType::kF16) {
    store_halves(args.k, args.k_len, reinterpret_cast<uint16_t*>(args.k_block) + args.within,
                 kBlockPositions);
    store_halves(args.v, args.v_len,
                 reinterpret_cast<uint16_t*>(args.v_block) + args.within * args.v_len, 1);
  } else {
    store_codes(args.k, args.k_len, args.within, args.k_block, 4, 4 * kBlockPositions, true);
    store_codes(args.v, args.v_len, args.within, args.v_block, args.v_len, 4, false);
  }
}
