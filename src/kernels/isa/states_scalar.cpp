#include <cstddef>
#include <cstdint>

#include "kernels/isa/isa.h"
#include "kernels/state_kernels.h"

#include "kernels/body/vector_scalar.inl.h"

#include "kernels/body/math.inl.h"

#include "kernels/body/states.inl.h"

namespace billow::kernels {

constinit const StateKernels kScalarStates = make_state_kernels();

}  // namespace billow::kernels
