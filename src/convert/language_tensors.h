// Which tensors a language model has: their names in the source and in GGUF, and their sizes. Plain
// data; any thread.
#pragma once

#include <vector>

#include "convert/language_config.h"
#include "convert/planned_tensor.h"
#include "convert/weights.h"

namespace billow::convert {

// Every tensor in the order of the file. Takes from `weights` what it uses. Throws Error as
// plan_encoder() does.
std::vector<PlannedTensor> plan_language_model(const LanguageConfig& config, Weights& weights);

// Rows of the table of tokens. Throws Error where it is missing or no matrix.
uint32_t n_language_tokens(const Weights& weights);

}  // namespace billow::convert
