#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/isa/isa.h"
#include "kernels/state_kernels.h"

#include "kernels/body/vector_avx512.inl.h"

#include "kernels/body/math.inl.h"

#include "kernels/body/states.inl.h"

namespace billow::kernels {

constinit const StateKernels kAvx512States = make_state_kernels();

}  // namespace billow::kernels
