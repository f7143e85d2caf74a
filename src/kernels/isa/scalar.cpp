#include <utility>

#include "kernels/isa/isa.h"
#include "quant/type_list.h"
#include "quant/unpack.h"

#include "kernels/body/vector_scalar.inl.h"

#include "kernels/body/bodies.inl.h"

namespace billow::kernels {

constinit const KernelTable kScalar = make_table(quant::Formats{}, kScalarStates);

}  // namespace billow::kernels
