// The contents of this folder's files: tables, and overlays that replace some kernels of a table.
// Kernels of recurrent states have separate files, which compile in seconds. All contents are
// constant data. select.cpp, which is built for every processor, gives tables their names and
// conditions. So no code of an instruction set runs before that set is chosen.
#pragma once

#include "kernels/kernel_table.h"

namespace billow::kernels {

// The replaced kernels, also of each weight format; a null kernel keeps that of the base.
struct Overlay {
  TypeTable types;
  void (*encoder_attention_bf16)(const EncoderAttentionArgs&) noexcept;
  void (*read_attention)(const AttentionArgs&) noexcept;  // only for with_read_kernels()
};

// Returns `base` with the kernels of `overlay` instead of its own.
KernelTable overlaid(const KernelTable& base, const Overlay& overlay) noexcept;

// Returns `table` with the kernels of `overlay` for rows that are read.
KernelTable with_read_kernels(const KernelTable& table, const Overlay& overlay) noexcept;

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
