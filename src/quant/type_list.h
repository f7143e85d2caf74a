// The list of weight formats, in order of their numbers. The row table, the kernels of every ISA
// and the tests are generated from it. docs/adding-a-weight-format.md lists what a new entry needs.
#pragma once

#include "quant/types/bf16.h"
#include "quant/types/f16.h"
#include "quant/types/f32.h"
#include "quant/types/iq1_m.h"
#include "quant/types/iq1_s.h"
#include "quant/types/iq2_s.h"
#include "quant/types/iq2_xs.h"
#include "quant/types/iq2_xxs.h"
#include "quant/types/iq3_s.h"
#include "quant/types/iq3_xxs.h"
#include "quant/types/iq4_nl.h"
#include "quant/types/iq4_xs.h"
#include "quant/types/mxfp4.h"
#include "quant/types/nvfp4.h"
#include "quant/types/q1_0.h"
#include "quant/types/q2_0.h"
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
#include "quant/types/tq1_0.h"
#include "quant/types/tq2_0.h"

namespace billow::quant {

template <class... Format>
struct TypeList {};

using Formats = TypeList<F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, Q8_K,
                         IQ2_XXS, IQ2_XS, IQ3_XXS, IQ1_S, IQ4_NL, IQ3_S, IQ2_S, IQ4_XS, IQ1_M, BF16,
                         TQ1_0, TQ2_0, MXFP4, NVFP4, Q1_0, Q2_0>;

}  // namespace billow::quant
