// Kernels that walk over one row.
void rms_norm(const float* x, const float* weight, size_t n, float eps, float* out) noexcept {
  F squares = Isa::zero();
  for_vectors(n, [&](size_t i, size_t lanes) {
    const F v = load_lanes(x + i, lanes);
    squares = Isa::fma(v, v, squares);
  });
  const float mean = Isa::sum(squares) / static_cast<float>(n);
  const F factor = Isa::set1(1.0f / __builtin_sqrtf(mean + eps));
  for_vectors(n, [&](size_t i, size_t lanes) {
    store_lanes(out + i, load_lanes(x + i, lanes) * factor * load_lanes(weight + i, lanes), lanes);
  });
}

void rope(float* x, size_t n_heads, size_t head_len, size_t n_rot, RopeKind kind,
          const float* cosines, const float* sines) noexcept {
  const size_t half = n_rot / 2;
  const size_t step = kind == RopeKind::kAdjacent ? 2 : 1;
  const size_t distance = kind == RopeKind::kAdjacent ? 1 : half;
  for (size_t h = 0; h < n_heads; ++h, x += head_len) {
    for (size_t i = 0; i < half; ++i) {
      const float a = x[i * step];
      const float b = x[i * step + distance];
      x[i * step] = a * cosines[i] - b * sines[i];
      x[i * step + distance] = a * sines[i] + b * cosines[i];
    }
  }
}

void silu_multiply(float* gate, const float* up, size_t n) noexcept {
  for_vectors(n, [&](size_t i, size_t lanes) {
    const F g = load_lanes(gate + i, lanes);
    const F silu = g / (Isa::set1(1.0f) + exponential(Isa::zero() - g));
    store_lanes(gate + i, silu * load_lanes(up + i, lanes), lanes);
  });
}

// The tanh form of GELU: Hendrycks and Gimpel, arXiv 1606.08415.
void gelu_multiply(float* gate, const float* up, size_t n) noexcept {
  for_vectors(n, [&](size_t i, size_t lanes) {
    const F g = load_lanes(gate + i, lanes);
    const F inner = Isa::set1(0.79788456f) * Isa::fma(Isa::set1(0.044715f) * g * g, g, g);
    const F gelu = Isa::set1(0.5f) * g * (Isa::set1(1.0f) + hyperbolic_tangent(inner));
    store_lanes(gate + i, gelu * load_lanes(up + i, lanes), lanes);
  });
}

void add(float* x, const float* y, size_t n) noexcept {
  for_vectors(n, [&](size_t i, size_t lanes) {
    store_lanes(x + i, load_lanes(x + i, lanes) + load_lanes(y + i, lanes), lanes);
  });
}

inline F softcapped(F x, float cap) noexcept {
  return Isa::set1(cap) * hyperbolic_tangent(x / Isa::set1(cap));
}

void softcap(float* x, size_t n, float cap) noexcept {
  for_vectors(n, [&](size_t i, size_t lanes) {
    store_lanes(x + i, softcapped(load_lanes(x + i, lanes), cap), lanes);
  });
}

void store_f16(const float* x, size_t n, uint16_t* out, size_t stride) noexcept {
  for (size_t i = 0; i < n; i += Isa::kLanes) {
    uint16_t halves[Isa::kLanes];
    Isa::store_f16(halves, Isa::load(x + i));
    for (size_t j = 0; j < Isa::kLanes; ++j) out[(i + j) * stride] = halves[j];
  }
}

// A group whose values are not finite becomes NaN as a whole, one below 1e-30 becomes 0.
void quantize_group(const float* x, int8_t* codes, float* scale, float* sums,
                    int32_t* code_sums) noexcept {
  F extreme = Isa::zero();
  for (size_t i = 0; i < kActivationGroup; i += Isa::kLanes) {
    const F v = Isa::load(x + i);
    extreme = Isa::max(extreme, Isa::max(v, Isa::zero() - v));
  }
  float probe = 0.0f;  // NaN if any value is; the maximum may have lost it
  for (size_t i = 0; i < kActivationGroup; ++i) probe += x[i] * 0.0f;
  const float largest = Isa::largest(extreme);
  const bool finite = probe == 0.0f;
  const bool empty = !finite || largest < 1e-30f;
  const float d = finite ? (empty ? 0.0f : largest / 127.0f) : __builtin_nanf("");
  const float inverse = empty ? 0.0f : 127.0f / largest;
  *scale = d;
  for (size_t half = 0; half < 2; ++half) {
    int sum = 0;
    for (size_t i = 16 * half; i < 16 * half + 16; ++i) {
      const float t = empty ? 0.0f : x[i] * inverse;
      const int code = static_cast<int>(t + (t < 0.0f ? -0.5f : 0.5f));
      codes[i] = static_cast<int8_t>(code);
      sum += code;
    }
    code_sums[half] = sum;
    sums[half] = d * static_cast<float>(sum);
  }
}

void quantize_row(const float* x, size_t k, int8_t* codes, float* scales, float* sums,
                  int32_t* code_sums) noexcept {
  const size_t k_padded = padded(k);
  for (size_t i = 0; i < k_padded; i += kActivationGroup) {
    float group[kActivationGroup];
    const float* values = x + i;
    if (i + kActivationGroup > k) {
      for (size_t j = 0; j < kActivationGroup; ++j) group[j] = i + j < k ? x[i + j] : 0.0f;
      values = group;
    }
    quantize_group(values, codes + i, scales + i / kActivationGroup, sums + i / 16,
                   code_sums + i / 16);
  }
}
