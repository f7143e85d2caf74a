// The searches behind the encoders of formats whose elements have levels in the combinations of a
// grid: those of llama-quantize, sum for sum in the same order. Pure functions; any thread.
#pragma once

#include "quant/group_fit.h"
#include "quant/type.h"

namespace billow::quantize {

// Fits a group of 256 elements. `importance` is null or has a number for each. REQUIRES: one of the
// IQ1, IQ2 and IQ3 formats, and an importance where the format needs it.
quant::GridGroup fit_grid_group(quant::Type type, const float* x, const float* importance) noexcept;

}  // namespace billow::quantize
