#include <immintrin.h>

#include <utility>

#include "kernels/isa/isa.h"
#include "quant/type_list.h"
#include "quant/unpack.h"

namespace billow::kernels {
namespace {

#include "kernels/body/vector_avx512.inl.h"

#include "kernels/body/bodies.inl.h"

bool supported(const cpu::Features& features) noexcept { return features.avx512_vnni; }

}  // namespace

const KernelTable kAvx512 = make_table("avx512", supported, quant::Formats{});

}  // namespace billow::kernels
