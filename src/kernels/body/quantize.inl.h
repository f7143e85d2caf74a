// Activations into the integer form of kernel_table.h.

// 32 floats of one row. A block whose values are not finite becomes NaN as a whole, one below 1e-30
// becomes 0.
inline void quantize_block(const float* x, size_t row, size_t n_rows, std::byte* out) noexcept {
  F extreme = Isa::zero();
  F probe = Isa::zero();  // NaN if any value is not finite; the maximum may have lost it
  for (size_t i = 0; i < kActivationGroup; i += Isa::kLanes) {
    const F v = Isa::load(x + i);
    extreme = Isa::max(extreme, Isa::max(v, Isa::zero() - v));
    probe = Isa::fma(v, Isa::zero(), probe);
  }
  const float largest = Isa::largest(extreme);
  const bool finite = Isa::sum(probe) == 0.0f;
  const bool empty = !finite || largest < 1e-30f;
  const float scale = finite ? (empty ? 0.0f : largest / 127.0f) : __builtin_nanf("");
  const F inverse = Isa::set1(empty ? 0.0f : 127.0f / largest);
  auto* codes = reinterpret_cast<int8_t*>(out) + row * kActivationGroup;
  float halves[2];
  for (size_t half = 0; half < 2; ++half) {
    F sum = Isa::zero();
    for (size_t i = 16 * half; i < 16 * half + 16; i += Isa::kLanes) {
      const F v = empty ? Isa::zero() : Isa::load(x + i) * inverse;
      const F code = Isa::round(v);
      Isa::store_codes(codes + i, code);
      sum = sum + code;
    }
    halves[half] = Isa::sum(sum);
  }
  auto* scales = reinterpret_cast<float*>(out + n_rows * kActivationGroup) + row;
  auto* negative = reinterpret_cast<int32_t*>(scales + n_rows);
  float* sums = scales + 4 * n_rows;
  const float totals[3] = {halves[0], halves[1], halves[0] + halves[1]};
  *scales = scale;
  for (size_t i = 0; i < 3; ++i) {
    negative[i * n_rows] = -static_cast<int32_t>(totals[i]);
    sums[i * n_rows] = scale * totals[i];
  }
}

void quantize_group(const float* x, size_t stride, size_t n_rows, size_t k,
                    std::byte* out) noexcept {
  const size_t block_bytes = n_rows * kActivationRowBytes;
  for (size_t i = 0; i < padded(k); i += kActivationGroup, out += block_bytes) {
    for (size_t row = 0; row < n_rows; ++row) {
      const float* values = x + row * stride + i;
      float last[kActivationGroup];
      if (i + kActivationGroup > k) {
        for (size_t j = 0; j < kActivationGroup; ++j) last[j] = i + j < k ? values[j] : 0.0f;
        values = last;
      }
      quantize_block(values, row, n_rows, out);
    }
  }
}
