#include <immintrin.h>

#include <utility>

#include "kernels/isa/isa.h"
#include "quant/type_list.h"

#include "kernels/body/vector_avx512.inl.h"

#include "kernels/body/pairs.inl.h"

namespace billow::kernels {
namespace {

struct Half {
  static Isa::Bytes fma(Isa::Bytes w, Isa::Bytes x, Isa::Bytes sum) noexcept {
    return reinterpret_cast<Isa::Bytes>(_mm512_fmadd_ph(reinterpret_cast<__m512h>(w),
                                                        reinterpret_cast<__m512h>(x),
                                                        reinterpret_cast<__m512h>(sum)));
  }
};

}  // namespace
}  // namespace billow::kernels

#include "kernels/body/half_product.inl.h"

namespace billow::kernels {

constinit const Overlay kAvx512Fp16 = half_overlay();

}  // namespace billow::kernels
