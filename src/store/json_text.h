// Parses untrusted JSON strictly: limited depth and one type for each field. Every error is an
// Error (kInvalidInput) that names its origin. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"

namespace billow::store {

// Parses `text`. Throws Error if the text is malformed or nested too deep. The error text begins
// with `origin`, a path or a name.
Json parse_json(std::string_view text, const std::string& origin);

// Returns one line without spaces. Bytes that are not UTF-8 become U+FFFD.
std::string compact(const Json& value);

// Return a field of an object. Missing and null fields are "", 0 and {}. Throw Error if the field
// has another type.
std::string string_field(const Json& object, const char* key, const std::string& origin);
uint64_t count_field(const Json& object, const char* key, const std::string& origin);
std::vector<std::string> strings_field(const Json& object, const char* key,
                                       const std::string& origin);

}  // namespace billow::store
