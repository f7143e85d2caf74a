#include "prompt/go/functions.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"
#include "prompt/go/print.h"

namespace billow::prompt::go {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::kInvalidInput, what); }

size_t index_of(const Value& index, size_t n_max) {
  const int64_t* value = index.as_integer();
  if (!value && index.is_nil()) refuse("cannot index slice/array with nil");
  if (!value) refuse("cannot index slice/array with type " + std::string(index.type_name()));
  if (*value < 0 || static_cast<uint64_t>(*value) > n_max) {
    refuse("index out of range: " + std::to_string(*value));
  }
  return static_cast<size_t>(*value);
}

Value item_of(const Value& from, const Value& index) {
  if (const auto* list = from.as_list()) {
    const size_t at = index_of(index, list->n_items);
    if (at == list->n_items) refuse("reflect: slice index out of range");
    return list->first()[at];
  }
  if (const auto* text = from.as_text()) {
    const size_t at = index_of(index, text->size());
    if (at == text->size()) refuse("reflect: string index out of range");
    return Value::integer(static_cast<unsigned char>((*text)[at]));
  }
  const auto* map = from.as_map();
  if (!map && from.is_nil()) refuse("index of nil pointer");
  if (!map) refuse("can't index item of type " + std::string(from.type_name()));
  const auto* key = index.as_text();
  if (!key && index.is_nil()) refuse("value is nil; should be of type string");
  if (!key) refuse("value has type " + std::string(index.type_name()) + "; should be string");
  const Value* found = map->find(*key);
  return found ? *found : Value();
}

Value call_index(Call& call) {
  if (call.arguments[0].is_nil()) refuse("index of untyped nil");
  Value item = call.arguments[0];
  for (size_t i = 1; i < call.arguments.size(); ++i) item = item_of(item, call.arguments[i]);
  return item;
}

Value call_slice(Call& call) {
  const Value& item = call.arguments[0];
  const auto* list = item.as_list();
  const auto* text = item.as_text();
  const size_t n_indexes = call.arguments.size() - 1;
  if (item.is_nil()) refuse("slice of untyped nil");
  if (n_indexes > 3) refuse("too many slice indexes: " + std::to_string(n_indexes));
  if (text && n_indexes == 3) refuse("cannot 3-index slice a string");
  if (!list && !text) refuse("can't slice item of type " + std::string(item.type_name()));
  const size_t capacity = list ? list->capacity() : text->size();
  std::array<size_t, 3> bounds{0, list ? list->n_items : text->size(), capacity};
  for (size_t i = 0; i < n_indexes; ++i) bounds[i] = index_of(call.arguments[i + 1], capacity);
  for (size_t i = 0; i + 1 < std::max(n_indexes, size_t{2}); ++i) {
    if (bounds[i] <= bounds[i + 1]) continue;
    refuse("invalid slice index: " + std::to_string(bounds[i]) + " > " +
           std::to_string(bounds[i + 1]));
  }
  if (list) return Value::view({list->data, list->begin + bounds[0], bounds[1] - bounds[0]});
  call.budget.spend_bytes(bounds[1] - bounds[0]);
  return Value::text(text->substr(bounds[0], bounds[1] - bounds[0]));
}

Value call_len(Call& call) {
  const Value& item = call.arguments[0];
  size_t n = 0;
  if (const auto* text = item.as_text()) {
    n = text->size();
  } else if (const auto* list = item.as_list()) {
    n = list->n_items;
  } else if (const auto* map = item.as_map()) {
    n = map->entries.size();
  } else {
    refuse(item.is_nil() ? "len of nil pointer" : "len of type " + std::string(item.type_name()));
  }
  return Value::integer(static_cast<int64_t>(n));
}

Value call_not(Call& call) { return Value::boolean(!call.arguments[0].is_true()); }

Value call_print(Call& call) {
  BudgetedText out(call.budget);
  append_print(out, call.arguments);
  return Value::text(out.take());
}

Value call_println(Call& call) {
  BudgetedText out(call.budget);
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    if (i > 0) out.append(" ");
    append_formatted(out, call.arguments[i], {});
  }
  out.append("\n");
  return Value::text(out.take());
}

Value call_printf(Call& call) {
  const Value format = call.arguments[0];
  if (format.is_nil()) refuse("invalid value; expected string");
  if (!format.as_text()) {
    refuse("wrong type for value; expected string; got " + std::string(format.type_name()));
  }
  call.arguments.erase(call.arguments.begin());
  BudgetedText out(call.budget);
  append_printf(out, *format.as_text(), call.arguments);
  return Value::text(out.take());
}

// Always throws, because the data of templates has no functions.
Value call_call(Call& call) {
  const Value& function = call.arguments[0];
  refuse(function.is_nil() ? "call of nil"
                           : "non-function of type " + std::string(function.type_name()));
}

Value call_json(Call& call) {
  BudgetedText out(call.budget);
  append_json(out, call.arguments[0]);
  return Value::text(out.take());
}

Value date(std::time_t time) {
  std::tm local{};
  localtime_r(&time, &local);
  std::array<char, 32> text{};
  const size_t n = std::strftime(text.data(), text.size(), "%Y-%m-%d", &local);
  return Value::text(std::string(text.data(), n));
}

Value call_current_date(Call& call) { return date(call.now); }
Value call_yesterday_date(Call& call) { return date(call.now - std::time_t{24} * 60 * 60); }

// Returns a member of a tool's property. A property is a record, or a map if a template made it
// from JSON.
const Value* member(const Value& property, std::string_view name, std::string_view json_name) {
  if (const auto* record = property.as_record()) return record->find(name);
  const auto* map = property.as_map();
  return map ? map->find(json_name) : nullptr;
}

std::string type_script_of(const Value* type_name) {
  const std::string* name = type_name ? type_name->as_text() : nullptr;
  if (!name) return "any";
  if (*name == "string" || *name == "boolean" || *name == "null") return *name;
  if (*name == "number" || *name == "integer") return "number";
  if (*name == "array") return "any[]";
  return *name == "object" ? "Record<string, any>" : "any";
}

// The recursion is bounded, because kMaxDataDepth bounds the depth of all data.
std::string type_script_type(const Value& property) {
  const Value* any_of = member(property, "AnyOf", "anyOf");
  const Value* type = member(property, "Type", "type");
  const bool is_union = any_of && any_of->is_true();
  const Value* const names = is_union ? any_of : type;
  const auto* list = names ? names->as_list() : nullptr;
  if (!list) return type_script_of(type);
  std::string joined;
  for (size_t i = 0; i < list->n_items; ++i) {
    const Value& item = list->first()[i];
    joined += (i > 0 ? " | " : "") + (is_union ? type_script_type(item) : type_script_of(&item));
  }
  return joined.empty() ? "any" : joined;
}

Value call_type_script_type(Call& call) {
  const std::string text = type_script_type(call.arguments[0]);
  call.budget.spend_bytes(text.size());
  return Value::text(text);
}

constexpr std::array<Function, 23> kFunctions{{
    {"and", 1, kAnyNumber, nullptr},
    {"or", 1, kAnyNumber, nullptr},
    {"not", 1, 1, call_not},
    {"eq", 1, kAnyNumber, call_eq},
    {"ne", 2, 2, call_ne},
    {"lt", 2, 2, call_lt},
    {"le", 2, 2, call_le},
    {"gt", 2, 2, call_gt},
    {"ge", 2, 2, call_ge},
    {"len", 1, 1, call_len},
    {"index", 1, kAnyNumber, call_index},
    {"slice", 1, kAnyNumber, call_slice},
    {"print", 0, kAnyNumber, call_print},
    {"printf", 1, kAnyNumber, call_printf},
    {"println", 0, kAnyNumber, call_println},
    {"html", 0, kAnyNumber, call_html},
    {"js", 0, kAnyNumber, call_js},
    {"urlquery", 0, kAnyNumber, call_urlquery},
    {"call", 1, kAnyNumber, call_call},
    {"json", 1, 1, call_json},
    {"currentDate", 0, kAnyNumber, call_current_date},
    {"yesterdayDate", 0, kAnyNumber, call_yesterday_date},
    {"toTypeScriptType", 1, 1, call_type_script_type},
}};

}  // namespace

const Function* find_function(std::string_view name) {
  const auto* at = std::find_if(kFunctions.begin(), kFunctions.end(),
                                [&](const Function& function) { return function.name == name; });
  return at == kFunctions.end() ? nullptr : at;
}

}  // namespace billow::prompt::go
