// Go's literals: numbers, characters and texts as they stand in a template.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "prompt/go/value.h"

namespace billow::prompt::go {

// An integer (decimal, 0x, 0o, 0b, leading 0 for octal, with underscores) or, with a point or an
// exponent, a floating-point number. Nullopt if it is none, or does not fit into 64 bits.
std::optional<Value> parse_number(std::string_view literal);

// The code of a character in single quotes; nullopt if it is not exactly one.
std::optional<Value> parse_rune(std::string_view literal);

// The text in double quotes or backquotes, both included; nullopt if an escape is wrong.
std::optional<std::string> parse_string(std::string_view literal);

}  // namespace billow::prompt::go
