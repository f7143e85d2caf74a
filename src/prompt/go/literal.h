// Parses Go's literals: numbers, characters and strings.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "prompt/go/value.h"

namespace billow::prompt::go {

// Parses an integer (decimal, 0x, 0o, 0b, leading 0 for octal, with underscores) or, with a point
// or an exponent, a floating-point number. Returns nullopt for anything else and for integers
// beyond the range of int64_t.
std::optional<Value> parse_number(std::string_view literal);

// Parses a character in single quotes and returns its code; nullopt if there is not exactly one.
std::optional<Value> parse_rune(std::string_view literal);

// Parses a string. `literal` includes its double quotes or backquotes. Returns nullopt for an
// invalid escape.
std::optional<std::string> parse_string(std::string_view literal);

}  // namespace billow::prompt::go
