// Checks and scales adapter files (LoRA) of a model. Pure functions, except that they read the
// file.
#pragma once

#include <string>

#include "gguf/file.h"
#include "store/digest.h"
#include "store/gguf_facts.h"
#include "store/store.h"

namespace billow::store {

// Throws Error (kInvalidInput) if the file is not an adapter, or if the adapter is for another
// architecture than the model's. The error text begins with `name`.
void check_adapter(const std::string& name, const GgufFacts& adapter, const GgufFacts& model);

// Writes the adapter with its effect multiplied by `scale`. Changes alpha, so that every program
// that reads adapters applies the scale. Throws Error (kInvalidInput) if the scale is 0 or not
// finite. Throws Error (kInvalidInput) if an adapter without an alpha has pairs of different ranks.
// The error text begins with `name`.
void write_scaled_adapter(const std::string& name, const gguf::File& adapter, float scale,
                          const ByteSink& sink);

}  // namespace billow::store
