// Activations and weights as BF16.

// To nearest, ties to even; NaN stays NaN.
inline uint16_t to_bf16(float x) noexcept {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t rounded = bits + 0x7FFFu + ((bits >> 16) & 1u);
  const bool nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
  return static_cast<uint16_t>((nan ? bits | 0x400000u : rounded) >> 16);
}

// For each 32 of k: bf16 [row][32].
constexpr size_t kBf16RowBytes = kActivationGroup * 2;
inline void write_bf16(const float* x, size_t stride, size_t n_rows, size_t k,
                       std::byte* out) noexcept {
  auto* to = reinterpret_cast<uint16_t*>(out);
  for (size_t i = 0; i < padded(k); i += kActivationGroup) {
    const size_t n = i + kActivationGroup <= k ? kActivationGroup : i < k ? k - i : 0;
    for (size_t row = 0; row < n_rows; ++row, to += kActivationGroup) {
      const float* from = x + row * stride + i;
      for (size_t j = 0; j < n; ++j) to[j] = to_bf16(from[j]);
      for (size_t j = n; j < kActivationGroup; ++j) to[j] = 0;
    }
  }
}

// A strip of F16 weights, rounded to BF16.
inline void pack_f16_as_bf16(const PackArgs& args) noexcept {
  pack_floats<quant::F16>(args);
  auto* words = reinterpret_cast<uint16_t*>(args.out);
  for (size_t i = 0; i < quant::kStripRows * padded(args.k); ++i)
    words[i] = to_bf16(Isa::f16_to_f32(words[i]));
}
