// The values of Go templates: the data of a template as Go's reflection sees it. Cheap to copy,
// because texts, lists and maps are shared and immutable. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json_fwd.h"

namespace billow::prompt::go {

class Value;

// How a list, map or record prints outside of JSON. kGo: as Go prints it (`[a b]`, `map[a:1]`).
// kJson: as JSON, because tools and arguments are Go types with such a String method.
// kPropertyType: as the type of a tool's property (a single name has no brackets).
enum class TextForm { kGo, kJson, kPropertyType };

struct ListData {
  std::vector<Value> items;
  TextForm form = TextForm::kGo;
};

// A part of a list. Like a Go slice, it can be extended again to the end of the list.
struct ListView {
  std::shared_ptr<const ListData> data;
  size_t begin = 0;
  size_t n_items = 0;

  const Value* first() const;
  size_t capacity() const;
};

// Sorted by key, because Go walks and prints maps in this order.
struct MapData {
  std::vector<std::pair<std::string, Value>> entries;
  TextForm form = TextForm::kGo;

  const Value* find(std::string_view key) const;
};

// A member of a record: its name in templates and its name in JSON. Both must outlive every value.
struct Field {
  std::string_view name;
  std::string_view json_name;
  bool omit_empty = false;  // JSON leaves it out if it is empty
};

// A Go struct: members in the order of their declaration.
struct RecordData {
  std::vector<std::pair<Field, Value>> members;
  TextForm form = TextForm::kGo;

  const Value* find(std::string_view name) const;
};

class Value {
 public:
  using Text = std::shared_ptr<const std::string>;
  using Map = std::shared_ptr<const MapData>;
  using Record = std::shared_ptr<const RecordData>;
  using Any = std::variant<std::monostate, bool, int64_t, double, Text, ListView, Map, Record>;

  Value() = default;  // nil; also the value of a missing key

  static Value boolean(bool value) { return Value(Any(value)); }
  static Value integer(int64_t value) { return Value(Any(value)); }
  static Value number(double value) { return Value(Any(value)); }
  static Value text(std::string value);
  static Value list(std::vector<Value> items, TextForm form = TextForm::kGo);
  static Value view(ListView view) { return Value(Any(std::move(view))); }
  // Sorts `entries`. Among equal keys the last one wins.
  static Value map(std::vector<std::pair<std::string, Value>> entries,
                   TextForm form = TextForm::kGo);
  static Value record(std::vector<std::pair<Field, Value>> members, TextForm form = TextForm::kGo);

  bool is_nil() const { return std::holds_alternative<std::monostate>(any_); }
  const bool* as_bool() const { return std::get_if<bool>(&any_); }
  const int64_t* as_integer() const { return std::get_if<int64_t>(&any_); }
  const double* as_number() const { return std::get_if<double>(&any_); }
  const ListView* as_list() const { return std::get_if<ListView>(&any_); }
  // Returns the text, map or record that this value holds, or null.
  const std::string* as_text() const;
  const MapData* as_map() const;
  const RecordData* as_record() const;

  // Returns the truth of the value for `if`: false for nil, false, 0 and empty values. Records are
  // true.
  bool is_true() const;
  // Returns the name of the type, as Go's errors show it.
  std::string_view type_name() const;
  // Returns how a list, map or record prints; kGo for all other values.
  TextForm form() const;

 private:
  explicit Value(Any any) : any_(std::move(any)) {}
  Any any_;
};

inline constexpr size_t kMaxDataDepth = 100;  // levels of nested lists and maps

// Converts JSON. Objects become maps. Integers beyond int64_t become floating-point numbers. `form`
// is the form of the outermost list or map. Throws Error (kTooLarge) beyond kMaxDataDepth.
Value from_json(const Json& json, TextForm form = TextForm::kGo);

}  // namespace billow::prompt::go
