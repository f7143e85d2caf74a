#include "api/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <limits>
#include <utility>

#include "api/json_reader.h"
#include "api/json_text.h"
#include "base/json.h"
#include "base/text.h"
#include "http/status.h"

namespace billow::api {
namespace {

// Names a value like Go's errors do. For a number that does not fit the type, includes the number.
std::string kind_of(const Json& value, std::string_view go_type) {
  if (value.is_string()) return "string";
  if (value.is_boolean()) return "bool";
  if (value.is_array()) return "array";
  if (value.is_object()) return "object";
  if (!value.is_number()) return "null";
  const bool wants_number =
      go_type.starts_with("int") || go_type.starts_with("uint") || go_type.starts_with("float");
  std::string text = "number";
  if (wants_number) append_json(text += ' ', value);
  return text;
}

[[noreturn]] void refuse_value(std::string_view where, const Json& value,
                               std::string_view go_type) {
  throw http::StatusError(400, fmt::format("json: cannot unmarshal {} into Go {} of type {}",
                                           kind_of(value, go_type), where, go_type));
}

// Returns the struct type of a field, by the field's name: "messages" contain "api.Message".
std::string struct_name(std::string_view field, bool is_list) {
  std::string name = "api.";
  bool at_word = true;
  for (const char c : field) {
    if (c != '_') name += at_word && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    at_word = c == '_';
  }
  if (is_list && name.ends_with('s')) name.pop_back();
  return name;
}

bool is_whole(const Json& value, int64_t min, int64_t max) {
  if (value.is_number_unsigned()) return value.get<uint64_t>() <= static_cast<uint64_t>(max);
  if (!value.is_number_integer()) return false;
  return value.get<int64_t>() >= min && value.get<int64_t>() <= max;
}

}  // namespace

Fields::Fields(std::shared_ptr<const Json> root, const Json& object, std::string path)
    : root_(std::move(root)), object_(&object), path_(std::move(path)) {}

Fields Fields::parse(std::string_view text, std::string_view type) {
  auto root = std::make_shared<Json>(read_json(text));
  const size_t dot = type.rfind('.');
  const std::string name(dot == std::string_view::npos ? type : type.substr(dot + 1));
  if (root->is_null()) *root = Json::object();
  if (!root->is_object()) {
    refuse_value("value", *root, dot == std::string_view::npos ? "api." + name : std::string(type));
  }
  const Json& object = *root;
  return {std::move(root), object, name};
}

const Json* Fields::value(std::string_view name) const {
  const Json* found = nullptr;
  for (const auto& [key, member] : object_->get_ref<const Json::object_t&>()) {
    if (key == name) {
      found = &member;
      break;
    }
    if (equal_ignoring_case(key, name)) found = &member;
  }
  return found && !found->is_null() ? found : nullptr;
}

bool Fields::has(std::string_view name) const { return value(name) != nullptr; }

void Fields::refuse(std::string_view name, const Json& value, std::string_view go_type) const {
  refuse_value(fmt::format("struct field {}.{}", path_, name), value, go_type);
}

std::optional<std::string> Fields::optional_text(std::string_view name) const {
  const Json* found = value(name);
  if (!found) return std::nullopt;
  if (!found->is_string()) refuse(name, *found, "string");
  return found->get<std::string>();
}

std::string Fields::text(std::string_view name) const {
  return optional_text(name).value_or(std::string());
}

std::optional<bool> Fields::flag(std::string_view name) const {
  const Json* found = value(name);
  if (!found) return std::nullopt;
  if (!found->is_boolean()) refuse(name, *found, "bool");
  return found->get<bool>();
}

std::optional<int64_t> Fields::integer(std::string_view name) const {
  using Limits = std::numeric_limits<int64_t>;
  const Json* found = value(name);
  if (!found) return std::nullopt;
  if (!is_whole(*found, Limits::min(), Limits::max())) refuse(name, *found, "int");
  return found->get<int64_t>();
}

std::optional<double> Fields::number(std::string_view name) const {
  const Json* found = value(name);
  if (!found) return std::nullopt;
  if (!found->is_number()) refuse(name, *found, "float64");
  return found->get<double>();
}

std::vector<std::string> Fields::texts(std::string_view name) const {
  std::vector<std::string> texts;
  const Json* found = value(name);
  if (!found) return texts;
  if (!found->is_array()) refuse(name, *found, "[]string");
  for (const Json& element : *found) {
    if (!element.is_string() && !element.is_null()) refuse(name, element, "string");
    texts.push_back(element.is_null() ? std::string() : element.get<std::string>());
  }
  return texts;
}

std::vector<int32_t> Fields::integers(std::string_view name) const {
  using Limits = std::numeric_limits<int32_t>;
  std::vector<int32_t> integers;
  const Json* found = value(name);
  if (!found) return integers;
  if (!found->is_array()) refuse(name, *found, "[]int");
  for (const Json& element : *found) {
    if (!element.is_null() && !is_whole(element, Limits::min(), Limits::max())) {
      refuse(name, element, "int");
    }
    integers.push_back(element.is_null() ? 0 : element.get<int32_t>());
  }
  return integers;
}

const Json* Fields::object(std::string_view name) const {
  const Json* found = value(name);
  if (found && !found->is_object()) refuse(name, *found, "map[string]interface {}");
  return found;
}

const Json* Fields::array(std::string_view name) const {
  const Json* found = value(name);
  if (found && !found->is_array()) refuse(name, *found, "[]interface {}");
  return found;
}

std::vector<Fields> Fields::objects(std::string_view name) const {
  std::vector<Fields> objects;
  const Json* found = value(name);
  if (!found) return objects;
  if (!found->is_array()) refuse(name, *found, "[]" + struct_name(name, true));
  static const Json empty = Json::object();
  for (const Json& element : *found) {
    if (!element.is_object() && !element.is_null()) refuse(name, element, struct_name(name, true));
    objects.push_back(
        Fields(root_, element.is_null() ? empty : element, fmt::format("{}.{}", path_, name)));
  }
  return objects;
}

std::optional<Fields> Fields::fields(std::string_view name) const {
  const Json* found = value(name);
  if (!found) return std::nullopt;
  if (!found->is_object()) refuse(name, *found, struct_name(name, false));
  return Fields(root_, *found, fmt::format("{}.{}", path_, name));
}

std::vector<std::pair<std::string, Fields>> Fields::members(std::string_view name) const {
  std::vector<std::pair<std::string, Fields>> members;
  const Json* found = value(name);
  if (!found) return members;
  if (!found->is_object()) refuse(name, *found, "map[string]" + struct_name(name, true));
  static const Json empty = Json::object();
  for (const auto& [key, member] : found->items()) {
    if (!member.is_object() && !member.is_null()) refuse(name, member, struct_name(name, true));
    members.emplace_back(
        key, Fields(root_, member.is_null() ? empty : member, fmt::format("{}.{}", path_, name)));
  }
  return members;
}

std::string utc_now_text() {
  const auto now = std::chrono::floor<std::chrono::nanoseconds>(std::chrono::system_clock::now());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now);
  // Each line of an answer has the time, so the part that changes once per second is cached.
  thread_local std::chrono::sys_seconds cached_second{};
  thread_local std::string cached;
  if (cached.empty() || cached_second != seconds) {
    const std::time_t clock = std::chrono::system_clock::to_time_t(seconds);
    std::tm utc{};
    ::gmtime_r(&clock, &utc);
    cached = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", utc.tm_year + 1900, utc.tm_mon + 1,
                         utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec);
    cached_second = seconds;
  }
  std::string text = cached;
  if (const auto part = (now - seconds).count(); part != 0) {
    // The leading digit keeps the zeros of the fraction.
    const std::string digits = std::to_string(1'000'000'000 + part);
    text += '.';
    text.append(digits, 1, digits.find_last_not_of('0'));
  }
  return text += 'Z';
}

}  // namespace billow::api
