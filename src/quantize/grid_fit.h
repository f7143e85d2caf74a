// The searches of the encoders of grid formats, in which the levels of several elements form one
// entry of a grid. They compute the same sums in the same order as llama-quantize. Pure functions;
// thread-safe.
#pragma once

#include "quant/group_fit.h"
#include "quant/type.h"

namespace billow::quantize {

// Fits a group of 256 elements. `importance` is null or has one number per element. REQUIRES: an
// IQ1, IQ2 or IQ3 format, and an importance if the format needs one.
quant::GridGroup fit_grid_group(quant::Type type, const float* x, const float* importance) noexcept;

}  // namespace billow::quantize
