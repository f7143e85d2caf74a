// The vocabularies of the bodies. A file of isa/ or test_isa/ includes its own first: that of its
// vectors defines BILLOW_VECTORS. A body that is read alone, by an editor or by the check of
// headers, gets all of them in plain C++.
#pragma once

#ifndef BILLOW_VECTORS
#define BILLOW_BODY_ALONE
#include "kernels/body/vector_scalar.inl.h"
#endif

namespace billow::kernels {
namespace {

using F = Isa::F;

}  // namespace
}  // namespace billow::kernels

#ifdef BILLOW_BODY_ALONE
#include "kernels/body/bf16_plain.inl.h"
#include "kernels/body/half_plain.inl.h"
#include "kernels/body/tiles_emulated.inl.h"
#include "kernels/isa/isa.h"

namespace billow::kernels {
namespace {

struct Bf16Dot {
  static F dot2(F sum, Isa::Bytes w, Isa::Bytes x) noexcept {
    sum = Isa::fma(Isa::low_bf16(w), Isa::low_bf16(x), sum);
    return Isa::fma(Isa::high_bf16(w), Isa::high_bf16(x), sum);
  }
};

constexpr const KernelTable& kTileBase = kScalar;

}  // namespace
}  // namespace billow::kernels
#endif
