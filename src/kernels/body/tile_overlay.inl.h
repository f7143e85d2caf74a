// The products with tiles as overlays over kTileBase. Integer formats use their codes, or are
// decoded to BF16. Both overlays have BF16, and F16 as BF16.
#pragma once

#include <cstddef>

#include "kernels/body/attention_read.inl.h"
#include "kernels/body/encoder_attention_tiles.inl.h"
#include "kernels/body/tile_bf16.inl.h"
#include "kernels/body/tile_codes.inl.h"
#include "kernels/body/tile_decoded.inl.h"
#include "kernels/isa/isa.h"
#include "kernels/kernel_table.h"
#include "quant/type_list.h"

namespace billow::kernels {
namespace {

template <class Format>
constexpr void add_float_tile_product(Overlay& overlay) noexcept {
  TypeKernels& kernels = overlay.types[static_cast<size_t>(Format::kType)];
  if constexpr (Format::kType == quant::Type::kBF16) {
    kernels = {&kTileBf16Input, nullptr, tile_bf16_gemm<Bf16Strips>};
  }
  if constexpr (Format::kType == quant::Type::kF16) {
    kernels = {&kTileBf16Input, pack_f16_as_bf16, tile_bf16_gemm<Bf16Strips>};
  }
}

template <class Format>
constexpr void add_tile_product(Overlay& overlay) noexcept {
  add_float_tile_product<Format>(overlay);
  if constexpr (Format::kInteger) {
    overlay.types[static_cast<size_t>(Format::kType)] = {&kTileInput, nullptr, tile_gemm<Format>};
  }
}

template <class Format>
constexpr void add_decoded_product(Overlay& overlay) noexcept {
  add_float_tile_product<Format>(overlay);
  if constexpr (Format::kInteger) {
    overlay.types[static_cast<size_t>(Format::kType)] = {
        &kTileBf16Input, nullptr, tile_bf16_gemm<Decoded<Format::kPacking>::template Strips>};
  }
}

template <class... Formats>
constexpr Overlay tile_overlay(quant::TypeList<Formats...>) noexcept {
  Overlay overlay{};
  (add_tile_product<Formats>(overlay), ...);
  return overlay;
}

template <class... Formats>
constexpr Overlay tile_bf16_overlay(quant::TypeList<Formats...>) noexcept {
  Overlay overlay{};
  (add_decoded_product<Formats>(overlay), ...);
  overlay.read_attention = read_attention;
  overlay.encoder_attention_bf16 = encoder_attention_tiles;
  return overlay;
}

}  // namespace
}  // namespace billow::kernels
