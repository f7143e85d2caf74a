#include <immintrin.h>

#include <utility>

#include "kernels/test_isa/test_isa.h"
#include "quant/type_list.h"

#include "kernels/body/vector_avx2.inl.h"

#include "kernels/body/vector_avx_vnni.inl.h"

namespace billow::kernels {
namespace {

using Isa = AvxVnni;

}  // namespace
}  // namespace billow::kernels

#include "kernels/body/integer_overlay.inl.h"

namespace billow::kernels {

constinit const Overlay kAvxVnniEvex = integer_overlay(quant::Formats{});

}  // namespace billow::kernels
