// The JSON object of a request, read field by field as Go's decoder reads it into a struct: names
// in any case, null as absent, unknown fields disregarded, and faults told in the words that
// clients know. Pure; any thread.
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

// One object; the root owns all of it, others refer to it. All functions throw http::StatusError
// (400) "json: cannot unmarshal string into Go struct field ChatRequest.messages.role of type ..."
// for a value of another kind than is asked for.
class Fields {
 public:
  // Reads the first JSON value of `text`; what follows it is disregarded. `type` is the struct's
  // name in messages. Throws http::StatusError (400): "missing request body", "unexpected EOF",
  // "invalid character 'x' looking for beginning of value" ... Nesting is bounded.
  static Fields parse(std::string_view text, std::string_view type);

  bool has(std::string_view name) const;  // there, and not null
  std::string text(std::string_view name) const;
  std::optional<std::string> optional_text(std::string_view name) const;
  std::optional<bool> flag(std::string_view name) const;
  // A whole number; "number 1.5" is of the wrong kind.
  std::optional<int64_t> integer(std::string_view name) const;
  std::optional<double> number(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  std::vector<int32_t> integers(std::string_view name) const;
  // An object, as it is; null if absent.
  const Json* object(std::string_view name) const;
  const Json* array(std::string_view name) const;
  // Of any kind; null if absent or null.
  const Json* value(std::string_view name) const;
  // The objects of an array, as fields in their turn.
  std::vector<Fields> objects(std::string_view name) const;
  std::optional<Fields> fields(std::string_view name) const;
  // The objects of an object, each with its name.
  std::vector<std::pair<std::string, Fields>> members(std::string_view name) const;
  // The whole object, as the client wrote it.
  const Json& all() const noexcept { return *object_; }

  // Refuses the value of a field: "json: cannot unmarshal KIND into Go struct field ... of type T".
  [[noreturn]] void refuse(std::string_view name, const Json& value,
                           std::string_view go_type) const;

 private:
  Fields(std::shared_ptr<const Json> root, const Json& object, std::string path);

  std::shared_ptr<const Json> root_;
  const Json* object_;
  std::string path_;  // "ChatRequest.messages"
};

// One value as the API writes it: compact, with <, > and & escaped as Go does.
std::string to_text(const Json& value);
// "2026-01-02T03:04:05.123456789Z": now.
std::string utc_now_text();

}  // namespace billow::api
