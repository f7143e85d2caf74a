// The output of `show`, from a response of /api/show. Pure and thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_fwd.h"

namespace billow::cli {

// Returns the sections Model, Capabilities, Projector, Parameters, System and License. `verbose`
// adds Metadata and Tensors. Omits empty sections.
std::string show_text(const Json& reply, bool verbose);

// Returns a field that is a text, or "".
std::string text_field(const Json& object, const char* key);
// Returns a field that is a non-negative whole number, or 0.
uint64_t count_field(const Json& object, const char* key);
// Returns the texts of an array; empty if the field is not an array.
std::vector<std::string> texts_field(const Json& object, const char* key);

}  // namespace billow::cli
