// Matrix products. A few weight rows are unpacked to the common form of quant/unpack.h, a slab of k
// at a time so that they stay in the first-level cache, and multiplied with all input rows.
constexpr size_t kSlab = 1024;  // a multiple of every group length and of kRowPadding

// kTileN weight rows' slab, unpacked.
struct WeightSlab {
  int8_t codes[Isa::kTileN][kSlab];
  float scales[Isa::kTileN][kSlab / quant::kScaleGroup];
  float offsets[Isa::kTileN]
               [kSlab / quant::kScaleGroup];  // what to add for each unit of an input group's sum
};

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
  for (size_t i = 0; i < n / quant::kScaleGroup; ++i) offsets[i] -= Isa::kCodeBias * scales[i];
}

// products[i][j] = the slab's part of dot(weight row i, input row j). rows: input rows from the
// slab's first value on.
template <size_t M>
inline void multiply_slab(const WeightSlab& slab, size_t n, const GemmInput& input,
                          const size_t (&rows)[M], size_t k0,
                          float (&products)[Isa::kTileN][M]) noexcept {
  const size_t k_padded = padded(input.k);
  const int8_t* x[M];
  const float* d[M];
  const float* sums[M];
  F acc[Isa::kTileN][M];
  for (size_t j = 0; j < M; ++j) {
    x[j] = input.codes + rows[j] * k_padded + k0;
    d[j] = input.scales + (rows[j] * k_padded + k0) / kActivationGroup;
    sums[j] = input.sums + (rows[j] * k_padded + k0) / quant::kScaleGroup;
    for (size_t i = 0; i < Isa::kTileN; ++i) acc[i][j] = Isa::zero();
  }
  for (size_t p = 0; p < padded(n); p += Isa::kCodes) {
    Isa::Codes w[Isa::kTileN];
    F scale[Isa::kTileN];
    for (size_t i = 0; i < Isa::kTileN; ++i) {
      w[i] = Isa::load_weight(slab.codes[i] + p);
      scale[i] = Isa::spread16(slab.scales[i] + p / quant::kScaleGroup);
    }
    for (size_t j = 0; j < M; ++j) {
      const Isa::Codes codes = Isa::load_input(x[j] + p);
      const F input_scale = Isa::spread32(d[j] + p / kActivationGroup);
      for (size_t i = 0; i < Isa::kTileN; ++i) {
        acc[i][j] = Isa::fma(Isa::dot(w[i], codes), scale[i] * input_scale, acc[i][j]);
      }
    }
  }
  for_vectors(padded(n) / quant::kScaleGroup, [&](size_t g, size_t lanes) {
    for (size_t j = 0; j < M; ++j) {
      const F sum = load_lanes(sums[j] + g, lanes);
      for (size_t i = 0; i < Isa::kTileN; ++i) {
        acc[i][j] = Isa::fma(load_lanes(slab.offsets[i] + g, lanes), sum, acc[i][j]);
      }
    }
  });
  for (size_t i = 0; i < Isa::kTileN; ++i) {
    for (size_t j = 0; j < M; ++j) products[i][j] = Isa::sum(acc[i][j]);
  }
}

// Adds the products of `n_rows` <= kTileN weight rows from n0 on to M or fewer input rows from m0
// on. A tile that reaches over an edge computes the edge's row twice and writes it once.
template <size_t M>
inline void add_tile(const GemmArgs& args, const WeightSlab& slab, size_t n0, size_t n_rows,
                     size_t m0, size_t k0, size_t n) noexcept {
  size_t rows[M];
  for (size_t j = 0; j < M; ++j) rows[j] = m0 + j < args.input.m ? m0 + j : args.input.m - 1;
  float products[Isa::kTileN][M];
  multiply_slab<M>(slab, n, args.input, rows, k0, products);
  for (size_t j = 0; j < M && m0 + j < args.input.m; ++j) {
    float* out = args.out + (m0 + j) * args.out_stride + n0;
    for (size_t i = 0; i < n_rows; ++i) out[i] = k0 == 0 ? products[i][j] : out[i] + products[i][j];
  }
}

template <class Format>
void gemm_integer(const GemmArgs& args) noexcept {
  WeightSlab slab;
  const size_t k = args.input.k;
  const size_t m = args.input.m;
  for (size_t n0 = args.n_begin; n0 < args.n_end; n0 += Isa::kTileN) {
    const size_t n_rows = args.n_end - n0 < Isa::kTileN ? args.n_end - n0 : Isa::kTileN;
    for (size_t k0 = 0; k0 < k; k0 += kSlab) {
      const size_t n = k - k0 < kSlab ? k - k0 : kSlab;
      for (size_t i = 0; i < Isa::kTileN; ++i) {
        const size_t row = n0 + (i < n_rows ? i : n_rows - 1);
        unpack_row<Format>(args.weight + row * args.row_bytes, k0, n, slab.codes[i], slab.scales[i],
                           slab.offsets[i]);
      }
      size_t m0 = 0;
      if (m > 1) {
        for (; m0 + 1 < m; m0 += Isa::kTileM)
          add_tile<Isa::kTileM>(args, slab, n0, n_rows, m0, k0, n);
      }
      if (m0 < m) add_tile<1>(args, slab, n0, n_rows, m0, k0, n);
    }
  }
}

inline F load_values(const quant::F32*, const std::byte* row, size_t i) noexcept {
  return Isa::load(reinterpret_cast<const float*>(row) + i);
}
inline F load_values(const quant::F16*, const std::byte* row, size_t i) noexcept {
  return Isa::load_f16(reinterpret_cast<const uint16_t*>(row) + i);
}
inline F load_values(const quant::BF16*, const std::byte* row, size_t i) noexcept {
  return Isa::load_bf16(reinterpret_cast<const uint16_t*>(row) + i);
}

// The last, incomplete vector of a row, zero beyond it.
template <class Format>
inline F load_tail(const std::byte* row, size_t i, size_t n) noexcept {
  using Element = std::conditional_t<Format::kGroupBytes == 4, float, uint16_t>;
  Element values[Isa::kLanes] = {};
  __builtin_memcpy(values, row + i * sizeof(Element), n * sizeof(Element));
  return load_values(static_cast<const Format*>(nullptr),
                     reinterpret_cast<const std::byte*>(values), 0);
}

template <class Format, size_t M>
inline void float_tile(const GemmArgs& args, size_t n0, size_t n_rows, size_t m0) noexcept {
  const size_t k = args.input.k;
  const std::byte* w[Isa::kTileN];
  const float* x[M];
  F acc[Isa::kTileN][M];
  for (size_t i = 0; i < Isa::kTileN; ++i) {
    w[i] = args.weight + (n0 + (i < n_rows ? i : n_rows - 1)) * args.row_bytes;
    for (size_t j = 0; j < M; ++j) acc[i][j] = Isa::zero();
  }
  for (size_t j = 0; j < M; ++j) {
    const size_t row = m0 + j < args.input.m ? m0 + j : args.input.m - 1;
    x[j] = args.input.values + row * padded(k);
  }
  for_vectors(k, [&](size_t p, size_t lanes) {
    F values[Isa::kTileN];
    for (size_t i = 0; i < Isa::kTileN; ++i) {
      values[i] = lanes == Isa::kLanes ? load_values(static_cast<const Format*>(nullptr), w[i], p)
                                       : load_tail<Format>(w[i], p, lanes);
    }
    for (size_t j = 0; j < M; ++j) {
      const F input = Isa::load(x[j] + p);
      for (size_t i = 0; i < Isa::kTileN; ++i) acc[i][j] = Isa::fma(values[i], input, acc[i][j]);
    }
  });
  for (size_t j = 0; j < M && m0 + j < args.input.m; ++j) {
    for (size_t i = 0; i < n_rows; ++i)
      args.out[(m0 + j) * args.out_stride + n0 + i] = Isa::sum(acc[i][j]);
  }
}

template <class Format>
void gemm_float(const GemmArgs& args) noexcept {
  for (size_t n0 = args.n_begin; n0 < args.n_end; n0 += Isa::kTileN) {
    const size_t n_rows = args.n_end - n0 < Isa::kTileN ? args.n_end - n0 : Isa::kTileN;
    size_t m0 = 0;
    if (args.input.m > 1) {
      for (; m0 + 1 < args.input.m; m0 += Isa::kTileM)
        float_tile<Format, Isa::kTileM>(args, n0, n_rows, m0);
    }
    if (m0 < args.input.m) float_tile<Format, 1>(args, n0, n_rows, m0);
  }
}
