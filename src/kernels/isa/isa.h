// What the files of this folder define, one each: tables, and overlays that replace some kernels of
// a table. Kernels of recurrent states have files of their own, which compile in seconds. All of it
// is constant data: select.cpp, which is built for every processor, gives tables their names and
// conditions, so that no code of an instruction set runs before it is chosen.
#pragma once

#include "kernels/kernel_table.h"

namespace billow::kernels {

// Of each weight format the kernels that are replaced; what is null stays.
struct Overlay {
  TypeTable types;
};

// `base` with the kernels of `overlay` in place of its own.
KernelTable overlaid(const KernelTable& base, const Overlay& overlay) noexcept;

extern const StateKernels kScalarStates;
extern const StateKernels kAvx2States;
extern const StateKernels kAvx512States;

extern const KernelTable kScalar;
extern const KernelTable kAvx2;
extern const KernelTable kAvx512;

extern const Overlay kAvxVnni;     // over kAvx2
extern const Overlay kAmx;         // over kAvx512
extern const Overlay kAmxBf16;     // over kAvx512
extern const Overlay kAvx512Fp16;  // over kAvx512
extern const Overlay kAvx512Bf16;  // over kAvx512

}  // namespace billow::kernels
