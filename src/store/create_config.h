// What a new model's config says of its weights. Pure functions; any thread.
#pragma once

#include <string>

#include "store/gguf_facts.h"
#include "store/model.h"

namespace billow::store {

// Takes over what the field "info" of a request says, an object or nothing. Throws Error
// (kInvalidInput) that names a field of the wrong type.
void merge_info(const std::string& info_json, Config& config);

// Adds what a file says where the config says nothing yet: the first file decides what the model
// is. The architectures of all files are its families.
void describe(const GgufFacts& facts, Config& config);

}  // namespace billow::store
