#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/isa/isa.h"
#include "kernels/state_kernels.h"

namespace billow::kernels {
namespace {

#include "kernels/body/vector_avx2.inl.h"

using Isa = Avx2;

#include "kernels/body/math.inl.h"

#include "kernels/body/states.inl.h"

}  // namespace

constinit const StateKernels kAvx2States = make_state_kernels();

}  // namespace billow::kernels
