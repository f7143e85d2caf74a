// Values of arguments that models write as bare text, made JSON by what the tool declares.
#pragma once

#include <string>
#include <string_view>

#include "base/json_fwd.h"

namespace billow::output {

// The types that a value may have; none: nothing is known.
enum TypeBits : unsigned {
  kString = 1,
  kNumber = 2,
  kInteger = 4,
  kBoolean = 8,
  kNull = 16,
  kArray = 32,
  kObject = 64,
};

// What the JSON schema `schema` allows. `root` is the schema that references in it mean.
unsigned types_in(const Json& schema, const Json& root);

// `text` as JSON of one of the types: null, boolean, integer, number, array, object, string, the
// first that it can be read as. Where it can be none of them it is a string, and where nothing is
// known too, unless it is a whole JSON array or object.
std::string value_json(std::string_view text, unsigned types);

// Whether `text` is JSON, or JSON of an object, as a whole.
bool is_json(std::string_view text);
bool is_json_object(std::string_view text);

// Appends `text` as the inside of a JSON string, byte by byte.
void append_escaped(std::string& out, std::string_view text);
// As a whole JSON string.
std::string quoted(std::string_view text);

}  // namespace billow::output
