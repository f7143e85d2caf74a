// The base model of an adapter: its family and its configuration. Plain data, thread-safe.
#pragma once

#include <vector>

#include "convert/language_family.h"
#include "convert/model_config.h"
#include "convert/sources.h"
#include "gguf/file.h"

namespace billow::convert {

struct AdapterBase {
  const LanguageFamily* family = nullptr;
  ModelConfig config;
};

// Reads the base model from config.json. Throws Error if no family matches the model.
AdapterBase base_of(const Sources& sources);

// Reads the base model from a GGUF file. Returns one candidate per family that writes this
// architecture; the tensor names of the adapter decide between them. The configurations contain the
// sizes that the matrix rules read. Throws Error (kUnsupported) if no family has this architecture.
std::vector<AdapterBase> bases_of(const gguf::File& model);

}  // namespace billow::convert
