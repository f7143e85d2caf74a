// Tables that only tests have: kernels of instruction sets that this machine need not have, with
// their special instructions in another encoding or emulated in plain C++.
#pragma once

#include <span>

#include "kernels/isa/isa.h"

namespace billow::kernels {

// Their names end in what they are: "avx_vnni_evex".
std::span<const KernelTable* const> test_tables();

extern const Overlay kAmxEmulated;         // over kScalar
extern const Overlay kAmxBf16Emulated;     // over kScalar
extern const Overlay kAvxVnniEvex;         // over kAvx2
extern const Overlay kAvx512Fp16Emulated;  // over kScalar

}  // namespace billow::kernels
