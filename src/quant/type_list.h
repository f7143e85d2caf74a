// The list of weight formats, in order of their numbers: the row table, the kernels of every ISA
// and the tests are made from it. docs/adding-a-weight-format.md says what a new entry needs.
#pragma once

#include "quant/types/bf16.h"
#include "quant/types/f16.h"
#include "quant/types/f32.h"
#include "quant/types/iq4_nl.h"
#include "quant/types/iq4_xs.h"
#include "quant/types/mxfp4.h"
#include "quant/types/q2_k.h"
#include "quant/types/q3_k.h"
#include "quant/types/q4_0.h"
#include "quant/types/q4_1.h"
#include "quant/types/q4_k.h"
#include "quant/types/q5_0.h"
#include "quant/types/q5_1.h"
#include "quant/types/q5_k.h"
#include "quant/types/q6_k.h"
#include "quant/types/q8_0.h"
#include "quant/types/q8_k.h"

namespace billow::quant {

template <class... Format>
struct TypeList {};

using Formats = TypeList<F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, Q8_K,
                         IQ4_NL, IQ4_XS, BF16, MXFP4>;

}  // namespace billow::quant
