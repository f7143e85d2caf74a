#include "convert/json_document.h"

#include <limits>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace billow::convert {
namespace {

constexpr int kMaxDepth = 100;
constexpr uint64_t kMaxValues =
    8'000'000;  // ten times the values of a vocabulary with 250 000 pieces

}  // namespace

Document parse_document(std::string_view text, const std::string& origin) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::kInvalidInput, origin + ": " + what);
  };
  std::set<std::string> names;
  uint64_t n_values = 0;
  const auto check = [&](int depth, Document::parse_event_t event, Document& value) {
    if (depth > kMaxDepth) fail("JSON nested too deep");
    if (++n_values > kMaxValues) fail("JSON with too many values");
    if (depth == 1 && event == Document::parse_event_t::key) {
      const auto name = value.get<std::string>();
      if (!names.insert(name).second) fail("\"" + name + "\" appears twice");
    }
    return true;
  };
  try {
    return Document::parse(text.begin(), text.end(), check);
  } catch (const Document::exception&) {
    throw Error(ErrorCode::kInvalidInput, origin + ": malformed JSON");
  }
}

std::vector<std::string> names_in_order(std::string_view text, std::string_view field) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  bool is_inside = false;
  const auto collect = [&](int depth, Document::parse_event_t event, Document& value) {
    if (event != Document::parse_event_t::key) return true;
    if (depth == 1) is_inside = value.get_ref<const std::string&>() == field;
    if (depth != 2 || !is_inside) return true;
    const auto [name, is_new] = seen.insert(value.get<std::string>());
    if (is_new) names.push_back(*name);
    return true;
  };
  [[maybe_unused]] const Document whole = Document::parse(text.begin(), text.end(), collect);
  return names;
}

DocumentFields::DocumentFields(const Document& object, std::string origin)
    : object_(object), origin_(std::move(origin)) {
  if (!object.is_object()) throw Error(ErrorCode::kInvalidInput, origin_ + ": not a JSON object");
}

void DocumentFields::refuse(std::string_view name, std::string_view what) const {
  throw Error(ErrorCode::kInvalidInput,
              origin_ + ": \"" + std::string(name) + "\" " + std::string(what));
}

const Document* DocumentFields::find(std::string_view name) const {
  const auto at = object_.find(name);
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

std::optional<uint64_t> DocumentFields::count(std::string_view name) const {
  const Document* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_unsigned()) refuse(name, "must be a whole number that is not negative");
  return value->get<uint64_t>();
}

std::optional<double> DocumentFields::number(std::string_view name) const {
  const Document* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) refuse(name, "must be a number");
  return value->get<double>();
}

std::optional<bool> DocumentFields::flag(std::string_view name) const {
  const Document* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse(name, "must be true or false");
  return value->get<bool>();
}

std::optional<std::string> DocumentFields::text(std::string_view name) const {
  const Document* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse(name, "must be a string");
  return value->get<std::string>();
}

uint32_t DocumentFields::require_size(std::initializer_list<std::string_view> names) const {
  constexpr uint64_t kMax = std::numeric_limits<int32_t>::max();
  for (const std::string_view name : names) {
    const auto value = count(name);
    if (!value) continue;
    if (*value == 0 || *value > kMax) refuse(name, "must be from 1 to 2^31-1");
    return static_cast<uint32_t>(*value);
  }
  refuse(*names.begin(), "is missing");
}

}  // namespace billow::convert
