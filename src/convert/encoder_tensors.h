// Which tensors an encoder has: their names in the source and in GGUF, and their sizes. Plain data;
// any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "convert/encoder_config.h"
#include "convert/planned_tensor.h"
#include "convert/weights.h"

namespace billow::convert {

// Every tensor in the order of the file. Takes from `weights` what it uses. Throws Error
// (kInvalidInput) for a tensor that is missing or of another shape than config.json makes it, and
// for one of no known use, which would make another model of it.
std::vector<PlannedTensor> plan_encoder(const EncoderConfig& config, Weights& weights);

// Rows of the embedding table. Throws Error where it is missing or no matrix.
uint32_t n_vocabulary(const EncoderConfig& config, const Weights& weights);
// Classes that the head tells apart. REQUIRES: the family has a head.
uint32_t n_classes(const EncoderConfig& config, const Weights& weights);
// Whether a tensor is of an adapter for one task, which is not part of the model.
bool is_of_adapter(std::string_view name);

}  // namespace billow::convert
