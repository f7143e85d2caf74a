// Plans the tensors of a projector's GGUF file. Finds the rule of the family for each tensor of the
// vision part. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "convert/planned_tensor.h"
#include "convert/projector_family.h"
#include "convert/weights.h"
#include "quant/type.h"

namespace billow::convert {

// Returns tensors without a layer, then those of each layer. Takes the tensors that it uses from
// `weights`. All tensors of the plan have a type, given that
// matrices get `matrix_type`. `n_text` is the width of the text model. Throws Error (kInvalidInput)
// for a tensor without a known use, for a shape that does not fit, and for missing parts.
std::vector<PlannedTensor> plan_projector(const ProjectorFamily& family,
                                          const ProjectorModel& model, const ProjectorSizes& sizes,
                                          uint32_t n_text, Weights& weights,
                                          quant::Type matrix_type);

// Returns whether the weights have a tensor of a vision part.
bool has_picture_tensors(const Weights& weights);

}  // namespace billow::convert
