// Fills in a new model's config. Pure functions; thread-safe.
#pragma once

#include <string>

#include "store/gguf_facts.h"
#include "store/model.h"

namespace billow::store {

// Copies the values of the field "info" of a request, a JSON object or empty. Throws Error
// (kInvalidInput) that names a field of the wrong type.
void merge_info(const std::string& info_json, Config& config);

// Returns a web address without the parts that may be secret: user, password, query, fragment.
std::string public_address(const std::string& url);

// Fills empty fields of the config from a file's facts. The first file determines the model's
// family and type. The architectures of all files become its families.
void describe(const GgufFacts& facts, Config& config);

}  // namespace billow::store
