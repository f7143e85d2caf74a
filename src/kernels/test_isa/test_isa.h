// Tables that only tests have: kernels of instruction sets that this machine may lack. Their
// special instructions are emulated in plain C++, or have another encoding.
#pragma once

#include <span>

#include "kernels/isa/isa.h"

namespace billow::kernels {

// Returns these tables. The end of a name says how the table works: "avx_vnni_evex".
std::span<const KernelTable* const> test_tables();

extern const Overlay kAmxEmulated;         // over kScalar
extern const Overlay kAmxBf16Emulated;     // over kScalar
extern const Overlay kAvxVnniEvex;         // over kAvx2
extern const Overlay kAvx512Fp16Emulated;  // over kScalar

}  // namespace billow::kernels
