// Fills a table with the kernels of this file's Isa.
template <class Format>
constexpr void set_gemm(KernelTable& table) noexcept {
  if constexpr (Format::kInteger) {
    table.gemm[static_cast<size_t>(Format::kType)] = gemm_integer<Format>;
    table.pack_strip[static_cast<size_t>(Format::kType)] = pack_strip<Format>;
    table.gemm_packed[static_cast<size_t>(Format::kType)] = gemm_packed<Format::kPacking>;
  } else {
    table.gemm[static_cast<size_t>(Format::kType)] = gemm_float<Format>;
  }
}

template <class... Formats>
constexpr KernelTable make_table(std::string_view name,
                                 bool (*supported)(const cpu::Features&) noexcept,
                                 quant::TypeList<Formats...>) noexcept {
  KernelTable table{};
  table.name = name;
  table.supported = supported;
  (set_gemm<Formats>(table), ...);
  table.quantize_row = quantize_row;
  table.rms_norm = rms_norm;
  table.rope = rope;
  table.silu_multiply = silu_multiply;
  table.gelu_multiply = gelu_multiply;
  table.add = add;
  table.softcap = softcap;
  table.store_f16 = store_f16;
  table.attention = attention;
  return table;
}
