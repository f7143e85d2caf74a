#include "store/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>

#include "base/error.h"
#include "base/go_text.h"
#include "base/json.h"
#include "store/json_text.h"

namespace billow::store {
namespace {

using enum ParameterType;

constexpr std::array kParameters{
    Parameter{"num_ctx", kInt, false},
    Parameter{"num_batch", kInt, false},
    Parameter{"num_gpu", kInt, false},
    Parameter{"main_gpu", kInt, false},
    Parameter{"use_mmap", kBool, false},
    Parameter{"num_thread", kInt, false},
    Parameter{"draft_num_predict", kInt, false},
    Parameter{"num_keep", kInt, false},
    Parameter{"seed", kInt, false},
    Parameter{"num_predict", kInt, false},
    Parameter{"top_k", kInt, false},
    Parameter{"top_p", kFloat, false},
    Parameter{"min_p", kFloat, false},
    Parameter{"typical_p", kFloat, false},
    Parameter{"repeat_last_n", kInt, false},
    Parameter{"temperature", kFloat, false},
    Parameter{"repeat_penalty", kFloat, false},
    Parameter{"presence_penalty", kFloat, false},
    Parameter{"frequency_penalty", kFloat, false},
    Parameter{"stop", kStrings, false},
    Parameter{"engine", kString, false, " auto billow llama "},
    Parameter{"mirostat", kInt, true},
    Parameter{"mirostat_tau", kFloat, true},
    Parameter{"mirostat_eta", kFloat, true},
    Parameter{"penalize_newline", kBool, true},
    Parameter{"low_vram", kBool, true},
    Parameter{"f16_kv", kBool, true},
    Parameter{"logits_all", kBool, true},
    Parameter{"vocab_only", kBool, true},
    Parameter{"use_mlock", kBool, true},
    Parameter{"numa", kBool, true},
    Parameter{"tfs_z", kFloat, true},
};

// Parses the whole text as a decimal number. A leading sign is allowed.
template <typename T>
std::optional<T> number(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  T value{};
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

[[noreturn]] void refuse(const char* kind, const std::string& text) {
  throw Error(ErrorCode::kInvalidInput, fmt::format("invalid {} value [{}]", kind, text));
}

Json typed(ParameterType type, const std::string& text) {
  switch (type) {
    case kInt:
      if (const auto value = number<int64_t>(text)) return *value;
      refuse("int", text);
    case kFloat: {
      const auto value = number<double>(text);
      if (value && std::isfinite(*value)) return *value;
      refuse("float", text);
    }
    case kBool:
      if (const auto value = go_bool(text)) return *value;
      refuse("bool", text);
    case kString:
    case kStrings:
      break;
  }
  return text;
}

void check_choice(const Parameter& parameter, const std::string& value) {
  if (parameter.choices.empty()) return;
  const bool is_one = value.find(' ') == std::string::npos && !value.empty() &&
                      parameter.choices.find(" " + value + " ") != std::string_view::npos;
  if (is_one) return;
  throw Error(ErrorCode::kInvalidInput, fmt::format("option \"{}\" must be one of{}and not [{}]",
                                                    parameter.name, parameter.choices, value));
}

bool has_type(const Json& value, ParameterType type) {
  switch (type) {
    case kInt:
    case kFloat:
      return value.is_number();
    case kBool:
      return value.is_boolean();
    case kString:
      return value.is_string();
    case kStrings:
      break;
  }
  return value.is_array() &&
         std::ranges::all_of(value, [](const Json& element) { return element.is_string(); });
}

std::string type_fault(const Parameter& parameter, const Json& value) {
  constexpr const char* kWords[] = {"integer", "float32", "boolean", "string"};
  if (parameter.type != kStrings) {
    return fmt::format("option \"{}\" must be of type {}", parameter.name,
                       kWords[static_cast<size_t>(parameter.type)]);
  }
  return fmt::format("option \"{}\" must be of {}", parameter.name,
                     value.is_array() ? "an array of strings" : "type array");
}

std::string value_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number_float()) return compact(value);
  const double number = value.get<double>();
  // A double represents whole numbers in this range exactly.
  if (std::abs(number) < 1e15 && number == std::floor(number)) return fmt::format("{:.0f}", number);
  return fmt::format("{}", number);
}

}  // namespace

std::span<const Parameter> parameters() noexcept { return kParameters; }

const Parameter* find_parameter(std::string_view name) noexcept {
  const auto at = std::ranges::find(kParameters, name, &Parameter::name);
  return at == kParameters.end() ? nullptr : &*at;
}

Json parameters_from_text(std::span<const std::pair<std::string, std::string>> values,
                          const std::function<void(const std::string&)>& warn) {
  Json object = Json::object();
  for (const auto& [name, text] : values) {
    const Parameter* parameter = find_parameter(name);
    if (!parameter) {
      throw Error(ErrorCode::kInvalidInput, fmt::format("unknown parameter '{}'", name));
    }
    if (parameter->deprecated) {
      if (warn) warn(fmt::format("warning: parameter {} is deprecated", name));
      continue;
    }
    check_choice(*parameter, text);
    if (parameter->type != kStrings) {
      object[name] = typed(parameter->type, text);
      continue;
    }
    if (!object.contains(name)) object[name] = Json::array();
    object[name].push_back(text);
  }
  return object;
}

void check_options(const Json& options) {
  if (!options.is_object()) {
    throw Error(ErrorCode::kInvalidInput, "options must be an object");
  }
  for (const auto& [name, value] : options.items()) {
    const Parameter* parameter = find_parameter(name);
    if (!parameter || parameter->deprecated || value.is_null()) continue;
    if (!has_type(value, parameter->type)) {
      throw Error(ErrorCode::kInvalidInput, type_fault(*parameter, value));
    }
    if (value.is_string()) check_choice(*parameter, value.get_ref<const std::string&>());
  }
}

std::vector<std::string> value_texts(const Json& value) {
  if (!value.is_array()) return {value_text(value)};
  std::vector<std::string> texts;
  for (const Json& element : value) texts.push_back(value_text(element));
  return texts;
}

}  // namespace billow::store
