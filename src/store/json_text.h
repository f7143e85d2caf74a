// JSON that came from outside, read strictly: bounded depth, one kind of value per field, and every
// fault an Error (kInvalidInput) that names its origin. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"

namespace billow::store {

// The value that `text` says; `origin`, a path or a name, begins the message of the Error when it
// is malformed or nested too deep.
Json parse_json(std::string_view text, const std::string& origin);

// One line without blanks; bytes that are not UTF-8 become U+FFFD.
std::string compact(const Json& value);

// The fields of an object: absent and null are "", 0 and {}; another kind of value is an Error.
std::string string_field(const Json& object, const char* key, const std::string& origin);
uint64_t count_field(const Json& object, const char* key, const std::string& origin);
std::vector<std::string> strings_field(const Json& object, const char* key,
                                       const std::string& origin);

}  // namespace billow::store
