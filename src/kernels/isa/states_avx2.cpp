#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/isa/isa.h"
#include "kernels/state_kernels.h"

#include "kernels/body/vector_avx2.inl.h"

namespace billow::kernels {
namespace {

using Isa = Avx2;

}  // namespace
}  // namespace billow::kernels

#include "kernels/body/math.inl.h"

#include "kernels/body/states.inl.h"

namespace billow::kernels {

constinit const StateKernels kAvx2States = make_state_kernels();

}  // namespace billow::kernels
