// Parses the JSON files of a model. The files are untrusted. Every error is an Error
// (kInvalidInput) whose message begins with the file name. Plain functions and views, thread-safe.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"

namespace billow::convert {

// Sorts the fields of objects by key, unlike billow::Json, because a vocabulary has many thousand
// fields.
using Document = nlohmann::json;

// Parses `text`. Throws Error for malformed text, for a duplicate name in the outermost object, for
// more values than any model needs, and for deep nesting.
Document parse_document(std::string_view text, const std::string& origin);

// Returns the names in the object `field` of the outermost object, in the order of the text. A name
// that appears twice has the place of the first. REQUIRES: parse_document() accepts the text.
std::vector<std::string> names_in_order(std::string_view text, std::string_view field);

// Typed access to the fields of one object. A view. Absent fields and null become nullopt. A field
// of another type causes an Error that names the field.
class DocumentFields {
 public:
  // Throws Error if `object` is not a JSON object. REQUIRES: `object` outlives this view.
  DocumentFields(const Document& object, std::string origin);

  const Document* find(std::string_view name) const;  // null where absent or null
  std::optional<uint64_t> count(std::string_view name) const;
  std::optional<double> number(std::string_view name) const;
  std::optional<bool> flag(std::string_view name) const;
  std::optional<std::string> text(std::string_view name) const;
  // Returns the first of these fields that exists, from 1 to 2^31-1. Throws Error if no field
  // exists.
  uint32_t require_size(std::initializer_list<std::string_view> names) const;

  const std::string& origin() const noexcept { return origin_; }
  [[noreturn]] void refuse(std::string_view name, std::string_view what) const;

 private:
  const Document& object_;
  std::string origin_;
};

}  // namespace billow::convert
