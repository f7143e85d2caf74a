// Writes JSON like Go's encoder: compact and byte for byte the same. Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "base/json_fwd.h"

namespace billow::api {

// All functions append to `out`. NaN and infinity become null.
void append_json(std::string& out, const Json& value);
void append_number(std::string& out, double value);
// with the fewest digits that identify the float
void append_number(std::string& out, float value);
// Adds the quotes. Escapes <, >, & and line separators. Invalid UTF-8 becomes \ufffd.
void append_string(std::string& out, std::string_view text);

}  // namespace billow::api
