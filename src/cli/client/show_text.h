// What `show` prints of a model, from the reply of /api/show. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_fwd.h"

namespace billow::cli {

// The sections Model, Capabilities, Projector, Parameters, System and License, those that there is
// something to say in; with `verbose` also Metadata and Tensors.
std::string show_text(const Json& reply, bool verbose);

// A field that is text, or "".
std::string text_field(const Json& object, const char* key);
// A whole number that is not negative, or 0.
uint64_t count_field(const Json& object, const char* key);
// An array's texts; none where the field is something else.
std::vector<std::string> texts_field(const Json& object, const char* key);

}  // namespace billow::cli
