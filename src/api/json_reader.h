// Parses the JSON of requests like Go's decoder, with the same error messages. Pure functions;
// thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "base/json_fwd.h"

namespace billow::api {

inline constexpr size_t kMaxJsonDepth = 200;               // of nested objects and arrays
inline constexpr size_t kMaxJsonMembers = 10'000;          // per object
inline constexpr size_t kMaxJsonValues = size_t{1} << 22;  // per request
// Per array. Elements after these must be numbers, because other elements need many times the
// memory of their text.
inline constexpr size_t kMaxJsonElements = size_t{1} << 16;

// Parses the first value of `text` and ignores the rest. Invalid UTF-8 and lone surrogates become
// U+FFFD. If members of an object have the same name, the last one wins. Throws http::StatusError
// (400): "missing request body", "unexpected EOF", "invalid character 'x' looking for beginning of
// value" ..., or if a limit above is exceeded. Throws 413 for too many elements.
Json read_json(std::string_view text);

// Parses JSON that came as a string of a request or of a model, with the same limits. Returns
// nullopt if `text` is not exactly one value, or exceeds a limit.
std::optional<Json> read_inner_json(std::string_view text);

}  // namespace billow::api
