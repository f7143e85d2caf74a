#include <utility>

#include "kernels/isa/isa.h"
#include "quant/type_list.h"
#include "quant/unpack.h"

namespace billow::kernels {
namespace {

#include "kernels/body/vector_scalar.inl.h"

#include "kernels/body/bodies.inl.h"

bool supported(const cpu::Features&) noexcept { return true; }

}  // namespace

const KernelTable kScalar = make_table("scalar", supported, quant::Formats{});

}  // namespace billow::kernels
