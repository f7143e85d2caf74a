#include "output/values.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "output/json_copy.h"

namespace billow::output {
namespace {

constexpr int kMaxSchemaDepth = 16;

unsigned type_named(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, unsigned>, 7> kNames = {{{"string", kString},
                                                                            {"number", kNumber},
                                                                            {"integer", kInteger},
                                                                            {"boolean", kBoolean},
                                                                            {"null", kNull},
                                                                            {"array", kArray},
                                                                            {"object", kObject}}};
  for (const auto& [known, bit] : kNames)
    if (known == name) return bit;
  return 0;
}

unsigned type_of(const Json& value) {
  if (value.is_number_integer()) return kInteger;
  return type_named(value.type_name());
}

unsigned types_of_all(const Json& values) {
  unsigned types = 0;
  if (values.is_array())
    for (const Json& value : values) types |= type_of(value);
  return types;
}

const Json* member(const Json& object, std::string_view key) {
  const auto at = object.find(key);
  return at == object.end() ? nullptr : &*at;
}

// Returns the schema that "#/$defs/name" refers to in `root`; null if there is none.
const Json* referred(const Json& root, const std::string& reference) {
  if (!reference.starts_with("#/")) return nullptr;
  const Json* place = &root;
  size_t begin = 2;
  while (begin <= reference.size()) {
    const size_t end = std::min(reference.find('/', begin), reference.size());
    if (!place->is_object()) return nullptr;
    place = member(*place, std::string_view(reference).substr(begin, end - begin));
    if (!place) return nullptr;
    begin = end + 1;
  }
  return place;
}

unsigned types_in(const Json& schema, const Json& root, int depth) {
  if (!schema.is_object() || depth > kMaxSchemaDepth) return 0;
  unsigned types = 0;
  if (const Json* reference = member(schema, "$ref"); reference && reference->is_string())
    if (const Json* place = referred(root, reference->get<std::string>()))
      types |= types_in(*place, root, depth + 1);
  if (const Json* type = member(schema, "type")) {
    if (type->is_string()) types |= type_named(type->get<std::string>());
    if (type->is_array())
      for (const Json& one : *type)
        if (one.is_string()) types |= type_named(one.get<std::string>());
  }
  for (const char* key : {"anyOf", "oneOf", "allOf"})
    if (const Json* all = member(schema, key); all && all->is_array())
      for (const Json& one : *all) types |= types_in(one, root, depth + 1);
  if (types == 0) {
    if (const Json* all = member(schema, "enum")) types |= types_of_all(*all);
    if (const Json* one = member(schema, "const")) types |= type_of(*one);
  }
  const Json* nullable = member(schema, "nullable");
  if (types != 0 && nullable && nullable->is_boolean() && nullable->get<bool>()) types |= kNull;
  return types;
}

// Returns `text` as JSON that begins with one of `firsts`, with small errors repaired.
std::optional<std::string> structured(std::string_view text, std::string_view firsts) {
  if (text.empty() || firsts.find(text.front()) == firsts.npos) return std::nullopt;
  if (is_json(text)) return std::string(text);
  return repaired_json(text);
}

// Returns `text` as JSON of this type; nullopt if it does not fit.
std::optional<std::string> as_type(std::string_view text, unsigned type, bool may_be_number) {
  switch (type) {
    case kNull:
      if (equal_ignoring_case(text, "null") || text == "None") return "null";
      return std::nullopt;
    case kBoolean:
      if (equal_ignoring_case(text, "true") || (text == "1" && !may_be_number)) return "true";
      if (equal_ignoring_case(text, "false") || (text == "0" && !may_be_number)) return "false";
      return std::nullopt;
    case kInteger:
    case kNumber: {
      const bool begins_number =
          !text.empty() && (text[0] == '-' || (text[0] >= '0' && text[0] <= '9'));
      const bool is_whole = text.find_first_of(".eE") == text.npos;
      if (!begins_number || (type == kInteger && !is_whole) || !is_json(text)) return std::nullopt;
      return std::string(text);
    }
    case kArray:
      return structured(text, "[");
    case kObject:
      return structured(text, "{");
    default:
      return std::nullopt;
  }
}

}  // namespace

unsigned types_in(const Json& schema, const Json& root) { return types_in(schema, root, 0); }

std::string value_json(std::string_view text, unsigned types) {
  const std::string_view bare = trimmed(text);
  if (types == 0) {
    auto found = structured(bare, "[{");
    return found ? *std::move(found) : quoted(text);
  }
  const bool may_be_number = (types & (kInteger | kNumber)) != 0;
  for (const unsigned type : {kNull, kBoolean, kInteger, kNumber, kArray, kObject}) {
    // The text "null" means "no value", whatever the type. Only a string can be this text.
    const bool is_allowed = (types & type) != 0 || (type == kNull && (types & kString) == 0);
    if (!is_allowed) continue;
    if (auto found = as_type(bare, type, may_be_number)) return *std::move(found);
  }
  return quoted(text);
}

bool is_json(std::string_view text) { return Json::accept(text.begin(), text.end()); }

bool is_json_object(std::string_view text) {
  return trimmed(text).starts_with('{') && is_json(text);
}

void append_escaped(std::string& out, std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  constexpr std::string_view kNamed = "\"\\\b\f\n\r\t";
  constexpr std::string_view kNames = "\"\\bfnrt";
  for (const char byte : text) {
    const auto code = static_cast<unsigned char>(byte);
    if (const size_t at = kNamed.find(byte); at != kNamed.npos) {
      out += {'\\', kNames[at]};
    } else if (code < 0x20) {
      out += {'\\', 'u', '0', '0', kDigits[code >> 4U], kDigits[code & 15U]};
    } else {
      out += byte;
    }
  }
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  append_escaped(out, text);
  return out += '"';
}

}  // namespace billow::output
