// Turns arguments that models write as bare text into JSON, by the types that the tool declares.
#pragma once

#include <string>
#include <string_view>

#include "base/json_fwd.h"

namespace billow::output {

// The types that a value can have. No bit: the types are unknown.
enum TypeBits : unsigned {
  kString = 1,
  kNumber = 2,
  kInteger = 4,
  kBoolean = 8,
  kNull = 16,
  kArray = 32,
  kObject = 64,
};

// Returns the types that the JSON schema `schema` allows. References in it refer to `root`.
unsigned types_in(const Json& schema, const Json& root);

// Returns `text` as JSON. Tries the types in the order null, boolean, integer, number, array,
// object, and takes the first allowed type that fits. Null is also allowed if strings are not. If
// no type fits, the result is a string. If no type is known, only arrays and objects stay JSON.
std::string value_json(std::string_view text, unsigned types);

// Return whether the whole `text` is JSON, or a JSON object.
bool is_json(std::string_view text);
bool is_json_object(std::string_view text);

// Appends `text`, byte by byte, as the inside of a JSON string.
void append_escaped(std::string& out, std::string_view text);
// Returns `text` as a whole JSON string.
std::string quoted(std::string_view text);

}  // namespace billow::output
