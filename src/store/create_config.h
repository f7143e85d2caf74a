// Fills in a new model's config. Pure functions; thread-safe.
#pragma once

#include <string>

#include "store/gguf_facts.h"
#include "store/model.h"

namespace billow::store {

// Copies the values of the field "info" of a request, a JSON object or empty. Throws Error
// (kInvalidInput) that names a field of the wrong type.
void merge_info(const std::string& info_json, Config& config);

// Fills empty fields of the config from a file's facts. The first file determines the model's
// family and type. The architectures of all files become its families.
void describe(const GgufFacts& facts, Config& config);

}  // namespace billow::store
