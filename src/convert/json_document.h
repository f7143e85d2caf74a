// The JSON files that describe a model, read as what they are: texts of strangers. Every fault is
// an Error (kInvalidInput) that begins with the file's name. Plain functions and views; any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/json_fwd.h"

namespace billow::convert {

// Objects sorted by their keys, unlike billow::Json: a vocabulary is one of many thousand fields.
using Document = nlohmann::json;

// The value that `text` says. Refuses malformed text, one name twice in the outermost object, more
// values than any model needs, and deep nesting.
Document parse_document(std::string_view text, const std::string& origin);

// Typed access to the fields of one object, a view: absent and null are nullopt, another type is an
// Error that names the field.
class DocumentFields {
 public:
  // Throws Error where `object` is none. REQUIRES: `object` lives longer than this.
  DocumentFields(const Document& object, std::string origin);

  const Document* find(std::string_view name) const;  // null where absent or null
  std::optional<uint64_t> count(std::string_view name) const;
  std::optional<double> number(std::string_view name) const;
  std::optional<bool> flag(std::string_view name) const;
  std::optional<std::string> text(std::string_view name) const;
  // The first of the names that is there, from 1 to 2^31-1; an Error where none is.
  uint32_t require_size(std::initializer_list<std::string_view> names) const;

  const std::string& origin() const noexcept { return origin_; }
  [[noreturn]] void refuse(std::string_view name, std::string_view what) const;

 private:
  const Document& object_;
  std::string origin_;
};

}  // namespace billow::convert
