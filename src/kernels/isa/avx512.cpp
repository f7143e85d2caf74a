#include <immintrin.h>

#include <utility>

#include "kernels/isa/isa.h"
#include "quant/type_list.h"
#include "quant/unpack.h"

#include "kernels/body/vector_avx512.inl.h"

#include "kernels/body/bodies.inl.h"

namespace billow::kernels {

constinit const KernelTable kAvx512 = make_table(quant::Formats{}, kAvx512States);

}  // namespace billow::kernels
