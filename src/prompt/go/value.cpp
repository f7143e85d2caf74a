#include "prompt/go/value.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/json.h"

namespace billow::prompt::go {

const Value* ListView::first() const { return data->items.data() + begin; }

size_t ListView::capacity() const { return data->items.size() - begin; }

const Value* MapData::find(std::string_view key) const {
  const auto at = std::lower_bound(entries.begin(), entries.end(), key,
                                   [](const auto& entry, auto name) { return entry.first < name; });
  return at != entries.end() && at->first == key ? &at->second : nullptr;
}

const Value* RecordData::find(std::string_view name) const {
  for (const auto& [field, value] : members) {
    if (field.name == name) return &value;
  }
  return nullptr;
}

Value Value::text(std::string value) {
  return Value(Any(std::make_shared<const std::string>(std::move(value))));
}

Value Value::list(std::vector<Value> items, TextForm form) {
  const size_t n_items = items.size();
  auto data = std::make_shared<const ListData>(ListData{std::move(items), form});
  return Value(Any(ListView{std::move(data), 0, n_items}));
}

Value Value::map(std::vector<std::pair<std::string, Value>> entries, TextForm form) {
  std::map<std::string, Value> sorted;
  for (auto& [key, value] : entries) sorted.insert_or_assign(std::move(key), std::move(value));
  std::vector<std::pair<std::string, Value>> unique(sorted.begin(), sorted.end());
  return Value(Any(std::make_shared<const MapData>(MapData{std::move(unique), form})));
}

Value Value::record(std::vector<std::pair<Field, Value>> members, TextForm form) {
  return Value(Any(std::make_shared<const RecordData>(RecordData{std::move(members), form})));
}

const std::string* Value::as_text() const {
  const auto* text = std::get_if<Text>(&any_);
  return text ? text->get() : nullptr;
}

const MapData* Value::as_map() const {
  const auto* map = std::get_if<Map>(&any_);
  return map ? map->get() : nullptr;
}

const RecordData* Value::as_record() const {
  const auto* record = std::get_if<Record>(&any_);
  return record ? record->get() : nullptr;
}

bool Value::is_true() const {
  if (const auto* value = as_bool()) return *value;
  if (const auto* value = as_integer()) return *value != 0;
  if (const auto* value = as_number()) return *value != 0;
  if (const auto* value = as_text()) return !value->empty();
  if (const auto* value = as_list()) return value->n_items != 0;
  if (const auto* value = as_map()) return !value->entries.empty();
  return as_record() != nullptr;
}

std::string_view Value::type_name() const {
  constexpr std::string_view kNames[] = {
      "nil",   "bool", "int", "float64", "string", "[]interface {}", "map[string]interface {}",
      "struct"};
  return kNames[any_.index()];
}

TextForm Value::form() const {
  if (const auto* list = as_list()) return list->data->form;
  if (const auto* map = as_map()) return map->form;
  if (const auto* record = as_record()) return record->form;
  return TextForm::kGo;
}

namespace {

Value from_json(const Json& json, size_t depth, TextForm form) {
  if (depth > kMaxDataDepth) {
    throw Error(ErrorCode::kTooLarge,
                "template: data nested deeper than " + std::to_string(kMaxDataDepth) + " levels");
  }
  if (json.is_boolean()) return Value::boolean(json.get<bool>());
  if (json.is_string()) return Value::text(json.get_ref<const Json::string_t&>());
  if (json.is_number_unsigned()) {
    const auto value = json.get<uint64_t>();
    constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    return value > kMax ? Value::number(static_cast<double>(value))
                        : Value::integer(static_cast<int64_t>(value));
  }
  if (json.is_number_integer()) return Value::integer(json.get<int64_t>());
  if (json.is_number_float()) return Value::number(json.get<double>());
  if (json.is_array()) {
    std::vector<Value> items;
    items.reserve(json.size());
    for (const Json& item : json) items.push_back(from_json(item, depth + 1, TextForm::kGo));
    return Value::list(std::move(items), form);
  }
  if (json.is_object()) {
    std::vector<std::pair<std::string, Value>> entries;
    entries.reserve(json.size());
    for (const auto& [key, item] : json.items()) {
      entries.emplace_back(key, from_json(item, depth + 1, TextForm::kGo));
    }
    return Value::map(std::move(entries), form);
  }
  return {};
}

}  // namespace

Value from_json(const Json& json, TextForm form) { return from_json(json, 1, form); }

}  // namespace billow::prompt::go
