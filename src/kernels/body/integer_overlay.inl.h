// The integer products of this file's Isa as an overlay. The base packs the weights, because its
// packed form is the same.
#pragma once

#include "kernels/body/integer_product.inl.h"
#include "kernels/body/products.inl.h"
#include "kernels/body/quantize.inl.h"
#include "kernels/isa/isa.h"
#include "kernels/kernel_table.h"
#include "quant/type_list.h"

namespace billow::kernels {
namespace {

constexpr ActivationLayout kIntegerInput = {InputKind::kCodes, kFewRows, Isa::kGroupRows,
                                            kActivationRowBytes, quantize_group};

template <class Format>
constexpr void add_integer_product(Overlay& overlay) noexcept {
  if constexpr (Format::kInteger) {
    overlay.types[static_cast<size_t>(Format::kType)] = {&kIntegerInput, nullptr,
                                                         gemm<IntegerProduct<Format::kPacking>>};
  }
}

template <class... Formats>
constexpr Overlay integer_overlay(quant::TypeList<Formats...>) noexcept {
  Overlay overlay{};
  (add_integer_product<Formats>(overlay), ...);
  return overlay;
}

}  // namespace
}  // namespace billow::kernels
