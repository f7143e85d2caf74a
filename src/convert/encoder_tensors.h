// Plans the tensors of an encoder: their names in the source and in GGUF, and their sizes. Plain
// functions, thread-safe.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "convert/encoder_config.h"
#include "convert/planned_tensor.h"
#include "convert/weights.h"

namespace billow::convert {

// Returns all tensors in file order. Takes the tensors that it uses from `weights`. Throws Error
// (kInvalidInput) for a tensor that is missing or whose shape contradicts config.json. Also throws
// Error for a tensor without a known use, because the tensor would change the model's results.
std::vector<PlannedTensor> plan_encoder(const EncoderConfig& config, Weights& weights);

// Returns the number of rows of the embedding table. Throws Error if it is missing or not a matrix.
uint32_t n_vocabulary(const EncoderConfig& config, const Weights& weights);
// Returns the number of classes of the head. REQUIRES: the family has a head.
uint32_t n_classes(const EncoderConfig& config, const Weights& weights);
// Returns whether a tensor belongs to a task adapter, which is not part of the model.
bool is_of_adapter(std::string_view name);

}  // namespace billow::convert
