// The products by tiles as an overlay over kTileBase: integer formats, BF16, and F16 as BF16.
template <class Format>
constexpr void add_tile_product(Overlay& overlay) noexcept {
  TypeKernels& kernels = overlay.types[static_cast<size_t>(Format::kType)];
  if constexpr (Format::kInteger) kernels = {&kTileInput, nullptr, tile_gemm<Format>};
  if constexpr (Format::kType == quant::Type::kBF16) {
    kernels = {&kTileBf16Input, nullptr, tile_bf16_gemm};
  }
  if constexpr (Format::kType == quant::Type::kF16) {
    kernels = {&kTileBf16Input, pack_f16_as_bf16, tile_bf16_gemm};
  }
}

template <class... Formats>
constexpr Overlay tile_overlay(quant::TypeList<Formats...>) noexcept {
  Overlay overlay{};
  (add_tile_product<Formats>(overlay), ...);
  return overlay;
}
