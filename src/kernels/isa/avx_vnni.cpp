#include <immintrin.h>

#include <utility>

#include "kernels/isa/isa.h"
#include "quant/type_list.h"

namespace billow::kernels {
namespace {

#include "kernels/body/vector_avx2.inl.h"

#include "kernels/body/vector_avx_vnni.inl.h"

using Isa = AvxVnni;

#include "kernels/body/integer_overlay.inl.h"

}  // namespace

constinit const Overlay kAvxVnni = integer_overlay(quant::Formats{});

}  // namespace billow::kernels
