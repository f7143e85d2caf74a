#include <immintrin.h>

#include <utility>

#include "kernels/isa/isa.h"
#include "quant/type_list.h"

#include "kernels/body/vector_avx512.inl.h"

#include "kernels/body/pairs.inl.h"

#include "kernels/body/bf16_avx512.inl.h"

#include "kernels/body/bf16_form.inl.h"

namespace billow::kernels {
namespace {

// vdpbf16ps treats denormal numbers as 0 and has its own rounding of sums.
struct Bf16Dot {
  static F dot2(F sum, Isa::Bytes w, Isa::Bytes x) noexcept {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(w), reinterpret_cast<__m512bh>(x));
  }
};

}  // namespace
}  // namespace billow::kernels

#include "kernels/body/bf16_product.inl.h"

#include "kernels/body/encoder_attention_bf16.inl.h"

namespace billow::kernels {
namespace {

constexpr ActivationLayout kBf16Input = {InputKind::kBF16, kFewRows, Bf16Product::kGroupRows,
                                         kBf16RowBytes, write_bf16};

constexpr Overlay make_overlay() noexcept {
  Overlay overlay{};
  const auto set = [&](quant::Type type, const TypeKernels& kernels) {
    overlay.types[static_cast<size_t>(type)] = kernels;
  };
  set(quant::Type::kBF16, {&kBf16Input, nullptr, gemm<Bf16Product>});
  set(quant::Type::kF16, {&kBf16Input, pack_f16_as_bf16, gemm<Bf16Product>});
  overlay.encoder_attention_bf16 = encoder_attention_bf16;
  return overlay;
}

}  // namespace

constinit const Overlay kAvx512Bf16 = make_overlay();

}  // namespace billow::kernels
