// JSON as the API writes it: compact, and byte for byte as Go's encoder has it. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/json_fwd.h"

namespace billow::api {

// Each appends to `out`. What is no number is written as null.
void append_json(std::string& out, const Json& value);
void append_number(std::string& out, double value);
void append_number(std::string& out, float value);  // in as few digits as a float needs
// With its quotes; <, >, & and line separators are escaped, bytes that are no UTF-8 are \ufffd.
void append_string(std::string& out, std::string_view text);

}  // namespace billow::api
