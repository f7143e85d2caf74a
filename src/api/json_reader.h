// JSON that came with a request, read as Go's decoder reads it and refused in its words. Pure; any
// thread.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/json_fwd.h"

namespace billow::api {

inline constexpr size_t kMaxJsonDepth = 200;               // of objects and arrays in each other
inline constexpr size_t kMaxJsonMembers = 10'000;          // of one object
inline constexpr size_t kMaxJsonValues = size_t{1} << 22;  // in all
// Of one array, where they are no numbers: each takes many times the memory of its text.
inline constexpr size_t kMaxJsonElements = size_t{1} << 16;

// The first value of `text`; what follows it is disregarded. Bytes that are no UTF-8 and halves of
// surrogate pairs become U+FFFD; of members of one name the last counts. Throws http::StatusError
// (400): "missing request body", "unexpected EOF", "invalid character 'x' looking for beginning of
// value" ..., and where a bound above is passed; 413 for that of elements.
Json read_json(std::string_view text);

}  // namespace billow::api
