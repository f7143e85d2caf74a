#include "store/json_text.h"

#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace billow::store {
namespace {

// Far more than any file of a store has. The time to parse an object grows with the square of its
// members.
constexpr size_t kMaxDepth = 100;
constexpr size_t kMaxMembers = 4096;  // of an object

Error field_error(const std::string& origin, const char* key, const char* wanted) {
  return {ErrorCode::kInvalidInput, origin + ": \"" + key + "\" must be " + wanted};
}

// Returns null if the field is missing or null.
const Json* find(const Json& object, const char* key, const std::string& origin) {
  if (!object.is_object()) throw Error(ErrorCode::kInvalidInput, origin + ": not a JSON object");
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

// Refuses text that would take long to parse. The parser reports brackets that do not match.
void check_shape(std::string_view text, const std::string& origin) {
  struct Open {
    bool is_object;
    size_t n_commas;
  };
  std::vector<Open> opened;
  bool is_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_string) {
      if (c == '\\') ++i;
      is_string = c != '"';
    } else if (c == '"') {
      is_string = true;
    } else if (c == '{' || c == '[') {
      opened.push_back({.is_object = c == '{', .n_commas = 0});
      if (opened.size() > kMaxDepth)
        throw Error(ErrorCode::kInvalidInput, origin + ": JSON nested too deep");
    } else if (!opened.empty() && (c == '}' || c == ']')) {
      opened.pop_back();
    } else if (c == ',' && !opened.empty() && opened.back().is_object &&
               ++opened.back().n_commas >= kMaxMembers) {
      throw Error(ErrorCode::kInvalidInput, origin + ": a JSON object of more than " +
                                                std::to_string(kMaxMembers) + " members");
    }
  }
}

}  // namespace

Json parse_json(std::string_view text, const std::string& origin) {
  check_shape(text, origin);
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::exception&) {
    throw Error(ErrorCode::kInvalidInput, origin + ": malformed JSON");
  }
}

std::string compact(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string string_field(const Json& object, const char* key, const std::string& origin) {
  const Json* value = find(object, key, origin);
  if (!value) return "";
  if (!value->is_string()) throw field_error(origin, key, "a string");
  return value->get<std::string>();
}

uint64_t count_field(const Json& object, const char* key, const std::string& origin) {
  const Json* value = find(object, key, origin);
  if (!value) return 0;
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  if (!value->is_number_unsigned() || value->get<uint64_t>() > kMax) {
    throw field_error(origin, key, "a whole number that is not negative");
  }
  return value->get<uint64_t>();
}

std::vector<std::string> strings_field(const Json& object, const char* key,
                                       const std::string& origin) {
  const Json* value = find(object, key, origin);
  if (!value) return {};
  if (!value->is_array()) throw field_error(origin, key, "an array of strings");
  std::vector<std::string> strings;
  for (const Json& element : *value) {
    if (!element.is_string()) throw field_error(origin, key, "an array of strings");
    strings.push_back(element.get<std::string>());
  }
  return strings;
}

}  // namespace billow::store
