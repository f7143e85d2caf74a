// Adapters (LoRA) among the files that a model is made of. Pure but for reading the file.
#pragma once

#include <string>

#include "gguf/file.h"
#include "store/digest.h"
#include "store/gguf_facts.h"
#include "store/store.h"

namespace billow::store {

// Throws Error (kInvalidInput) that begins with `name` where the file is no adapter, or one for
// another architecture than the model's.
void check_adapter(const std::string& name, const GgufFacts& adapter, const GgufFacts& model);

// The file with so many times as much of what it adds: its alpha is changed, so every program that
// reads adapters honours the scale. Throws Error (kInvalidInput) where the scale is 0 or no finite
// number, and where an adapter without an alpha has pairs of different ranks.
void write_scaled_adapter(const gguf::File& adapter, float scale, const ByteSink& sink);

}  // namespace billow::store
