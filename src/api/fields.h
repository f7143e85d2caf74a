// Reads the JSON object of a request field by field, like Go's decoder reads it into a struct.
// Names match in any case, null means absent, unknown fields are ignored, and errors have Go's
// wording, which clients know. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_fwd.h"

namespace billow::api {

// One object. Copies and sub-objects share ownership of the root. All functions throw
// http::StatusError (400) if a value has another type than the one requested: "json: cannot
// unmarshal string into Go struct field ChatRequest.messages.role of type ...".
class Fields {
 public:
  // Parses the first JSON value of `text` and ignores the rest. `type` is the struct's name in
  // messages. Throws http::StatusError (400): "missing request body", "unexpected EOF", "invalid
  // character 'x' looking for beginning of value" ... The depth of nesting is limited.
  static Fields parse(std::string_view text, std::string_view type);

  bool has(std::string_view name) const;  // present and not null
  std::string text(std::string_view name) const;
  std::optional<std::string> optional_text(std::string_view name) const;
  std::optional<bool> flag(std::string_view name) const;
  // A whole number. Throws for a fraction: "number 1.5".
  std::optional<int64_t> integer(std::string_view name) const;
  std::optional<double> number(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  std::vector<int32_t> integers(std::string_view name) const;
  // Returns an object as it is; null if absent.
  const Json* object(std::string_view name) const;
  const Json* array(std::string_view name) const;
  // Returns a value of any type; null if it is absent or null.
  const Json* value(std::string_view name) const;
  // Returns the objects of an array, each as Fields.
  std::vector<Fields> objects(std::string_view name) const;
  std::optional<Fields> fields(std::string_view name) const;
  // Returns the members of an object that are objects themselves, each with its name.
  std::vector<std::pair<std::string, Fields>> members(std::string_view name) const;
  // Returns the whole object as the client wrote it.
  const Json& all() const noexcept { return *object_; }

  // Throws for the value of a field: "json: cannot unmarshal KIND into Go struct field ... of type
  // T".
  [[noreturn]] void refuse(std::string_view name, const Json& value,
                           std::string_view go_type) const;

 private:
  Fields(std::shared_ptr<const Json> root, const Json& object, std::string path);

  std::shared_ptr<const Json> root_;
  const Json* object_;
  std::string path_;  // "ChatRequest.messages"
};

// Returns a value as the API writes it: compact, with <, > and & escaped like Go.
std::string to_text(const Json& value);
// Returns the current time: "2026-01-02T03:04:05.123456789Z".
std::string utc_now_text();

}  // namespace billow::api
