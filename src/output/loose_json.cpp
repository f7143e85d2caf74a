#include "output/loose_json.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/json.h"

namespace billow::output {
namespace {

constexpr size_t kMaxDepth = 100;

bool is_declared(std::span<const std::string> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_deep(std::string_view json) {
  size_t depth = 0;
  size_t n_max = 0;
  bool is_text = false;
  for (size_t i = 0; i < json.size(); ++i) {
    if (is_text && json[i] == '\\') {
      ++i;
    } else if (json[i] == '"') {
      is_text = !is_text;
    } else if (!is_text && (json[i] == '{' || json[i] == '[')) {
      n_max = std::max(n_max, ++depth);
    } else if (!is_text && (json[i] == '}' || json[i] == ']') && depth > 0) {
      --depth;
    }
  }
  return n_max > kMaxDepth;
}

Json parse(std::string_view text) {
  return is_deep(text) ? Json() : Json::parse(text, nullptr, false);
}

std::string compact(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

const Json* member(const Json& object, std::string_view key) {
  const auto at = object.find(key);
  return at == object.end() ? nullptr : &*at;
}

// Returns the JSON of an object, or of the object in a string; nullopt for all other values.
std::optional<std::string> arguments_in(const Json* value) {
  if (!value) return std::nullopt;
  if (value->is_object()) return compact(*value);
  if (!value->is_string()) return std::nullopt;
  const Json inner = parse(value->get_ref<const Json::string_t&>());
  if (!inner.is_object()) return std::nullopt;
  return compact(inner);
}

std::optional<std::string> named_arguments(const Json& object) {
  auto arguments = arguments_in(member(object, "arguments"));
  return arguments ? arguments : arguments_in(member(object, "parameters"));
}

// Collects the calls of declared tools: objects with "name" and arguments, at any depth of `json`.
// is_deep() bounds the recursion.
void collect(const Json& json, std::span<const std::string> names, std::vector<FoundCall>& calls) {
  if (json.is_object()) {
    const Json* name = member(json, "name");
    auto arguments = named_arguments(json);
    if (name && name->is_string() && arguments) {
      const auto& text = name->get_ref<const Json::string_t&>();
      if (is_declared(names, text)) calls.push_back({text, *std::move(arguments)});
      return;
    }
  }
  if (!json.is_structured()) return;
  for (const Json& item : json) collect(item, names, calls);
}

bool is_word(char byte) {
  return std::isalnum(static_cast<unsigned char>(byte)) != 0 || byte == '_' || byte == '-';
}

// Returns the first position where `name` is a separate word in `text`, or npos.
size_t find_word(std::string_view text, std::string_view name) {
  for (size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end])))
      return at;
  }
  return text.npos;
}

// Returns the name that comes first in `text`. If several names begin there, returns the longest.
// Returns an empty text if there is none.
std::string_view first_name(std::string_view text, std::span<const std::string> names) {
  std::string_view best;
  size_t best_at = text.npos;
  for (const std::string& name : names) {
    const size_t at = name.empty() ? text.npos : find_word(text, name);
    if (at < best_at || (at == best_at && at != text.npos && name.size() > best.size())) {
      best = name;
      best_at = at;
    }
  }
  return best;
}

std::string arguments_of(const Json& object, std::string_view name) {
  if (auto arguments = arguments_in(member(object, name))) return *std::move(arguments);
  const bool is_named = std::any_of(object.begin(), object.end(), [&](const Json& item) {
    return item.is_string() && item.get_ref<const Json::string_t&>() == name;
  });
  if (is_named) {
    if (auto arguments = named_arguments(object)) return *std::move(arguments);
  }
  return compact(object);
}

}  // namespace

std::vector<FoundCall> find_calls(std::string_view object, std::string_view context,
                                  std::span<const std::string> names) {
  std::vector<FoundCall> calls;
  const Json json = parse(object);
  if (!json.is_object()) return calls;
  collect(json, names, calls);
  if (!calls.empty() || member(json, "name")) return calls;
  const std::string_view name = first_name(context, names);
  if (!name.empty()) calls.push_back({std::string(name), arguments_of(json, name)});
  return calls;
}

}  // namespace billow::output
