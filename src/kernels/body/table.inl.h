// Fills a table with the kernels of this file's Isa.
#pragma once

#include <cstddef>

#include "kernels/body/attention.inl.h"
#include "kernels/body/encoder_attention.inl.h"
#include "kernels/body/float_product.inl.h"
#include "kernels/body/integer_product.inl.h"
#include "kernels/body/kv_store.inl.h"
#include "kernels/body/low_rank.inl.h"
#include "kernels/body/pack.inl.h"
#include "kernels/body/products.inl.h"
#include "kernels/body/quantize.inl.h"
#include "kernels/body/rows.inl.h"
#include "kernels/kernel_table.h"
#include "quant/type_list.h"

namespace billow::kernels {
namespace {

constexpr ActivationLayout kIntegerInput = {InputKind::kCodes, kFewRows, Isa::kGroupRows,
                                            kActivationRowBytes, quantize_group};
constexpr ActivationLayout kFloatInput = {InputKind::kF32, kFewRows, Isa::kFloatGroupRows,
                                          kActivationGroup * sizeof(float), write_floats};

template <class Format>
constexpr TypeKernels type_kernels() noexcept {
  if constexpr (Format::kInteger) {
    return {&kIntegerInput, pack_strip<Format>, gemm<IntegerProduct<Format::kPacking>>};
  } else {
    return {&kFloatInput, pack_floats<Format>, gemm<FloatProduct<Format>>};
  }
}

template <class... Formats>
constexpr KernelTable make_table(quant::TypeList<Formats...>, const StateKernels& states) noexcept {
  KernelTable table{};
  table.states = &states;
  ((table.types[static_cast<size_t>(Formats::kType)] = type_kernels<Formats>()), ...);
  table.read_types = table.types;
  table.rms_norm = rms_norm;
  table.layer_norm = layer_norm;
  table.rope = rope;
  table.silu_multiply = silu_multiply;
  table.gelu_multiply = gelu_multiply;
  table.gelu = gelu;
  table.gelu_tanh = gelu_tanh;
  table.clamped_silu_multiply = clamped_silu_multiply;
  table.sigmoid_multiply = sigmoid_multiply;
  table.add = add;
  table.add_low_rank = add_low_rank;
  table.softcap = softcap;
  table.store_kv = store_kv;
  table.attention = attention;
  table.read_attention = attention;
  table.merge_attention = merge_attention;
  table.attention_rows = Isa::kAttentionRows;
  table.encoder_attention = encoder_attention;
  return table;
}

}  // namespace
}  // namespace billow::kernels
