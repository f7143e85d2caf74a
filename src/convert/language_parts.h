// Whether what a plan has is a whole model, as far as this can be told from the names: no layer is
// missing, and no half of a part.
#pragma once

#include <cstdint>
#include <span>

#include "convert/planned_tensor.h"

namespace billow::convert {

// Throws Error (kInvalidInput) that names what is missing, or what is not as wide as the model.
void check_language_parts(std::span<const PlannedTensor> tensors, uint32_t n_layers,
                          uint64_t n_embd);

}  // namespace billow::convert
