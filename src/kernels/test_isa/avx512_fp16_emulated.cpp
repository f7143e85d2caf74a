#include <utility>

#include "kernels/test_isa/test_isa.h"
#include "quant/type_list.h"

#include "kernels/body/vector_scalar.inl.h"

#include "kernels/body/pairs.inl.h"

#include "kernels/body/half_plain.inl.h"

#include "kernels/body/half_product.inl.h"

namespace billow::kernels {

constinit const Overlay kAvx512Fp16Emulated = half_overlay();

}  // namespace billow::kernels
