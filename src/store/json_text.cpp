#include "store/json_text.h"

#include <limits>

#include "base/error.h"
#include "base/json.h"

namespace billow::store {
namespace {

constexpr int kMaxDepth = 100;  // far more than any file of a store has

Error field_error(const std::string& origin, const char* key, const char* wanted) {
  return {ErrorCode::kInvalidInput, origin + ": \"" + key + "\" must be " + wanted};
}

// Null where the field is absent or null.
const Json* find(const Json& object, const char* key, const std::string& origin) {
  if (!object.is_object()) throw Error(ErrorCode::kInvalidInput, origin + ": not a JSON object");
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

}  // namespace

Json parse_json(std::string_view text, const std::string& origin) {
  const auto bounded = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > kMaxDepth) {
      throw Error(ErrorCode::kInvalidInput, origin + ": JSON nested too deep");
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), bounded);
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
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  if (!value->is_number_unsigned() || value->get<uint64_t>() > kMost) {
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
