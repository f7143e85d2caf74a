// Checks by tensor names that a plan is a whole model: no layer and no half of a part is missing.
#pragma once

#include <cstdint>
#include <span>

#include "convert/planned_tensor.h"

namespace billow::convert {

// Throws Error (kInvalidInput) that names the missing part, or the tensor that has another width
// than the model.
void check_language_parts(std::span<const PlannedTensor> tensors, uint32_t n_layers,
                          uint64_t n_embd);

}  // namespace billow::convert
