#include <immintrin.h>

#include <utility>

#include "kernels/isa/isa.h"
#include "quant/type_list.h"
#include "quant/unpack.h"

namespace billow::kernels {
namespace {

#include "kernels/body/vector_avx2.inl.h"

using Isa = Avx2;

#include "kernels/body/bodies.inl.h"

}  // namespace

constinit const KernelTable kAvx2 = make_table(quant::Formats{}, kAvx2States);

}  // namespace billow::kernels
