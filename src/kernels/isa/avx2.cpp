#include <immintrin.h>

#include <utility>

#include "kernels/isa/isa.h"
#include "quant/type_list.h"
#include "quant/unpack.h"

#include "kernels/body/vector_avx2.inl.h"

namespace billow::kernels {
namespace {

using Isa = Avx2;

}  // namespace
}  // namespace billow::kernels

#include "kernels/body/bodies.inl.h"

namespace billow::kernels {

constinit const KernelTable kAvx2 = make_table(quant::Formats{}, kAvx2States);

}  // namespace billow::kernels
