// Built-in Go templates with names, for models whose GGUF has only a Jinja template. Marks in the
// Jinja text identify the name. Constant tables; thread-safe.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace billow::prompt {

struct NamedTemplate {
  std::string_view name;
  std::string_view source;                  // a Go template that walks .Messages
  std::span<const std::string_view> stops;  // texts that end an answer
};

// Returns all named templates, sorted by name.
std::span<const NamedTemplate> named_templates();

// Returns the template of this name, or null.
const NamedTemplate* find_named_template(std::string_view name);

// Returns the named template that renders like `jinja`. Returns nullptr unless `jinja` is one of
// the widely used texts, up to small changes. Short texts with tools, and all texts with thinking,
// are never detected, because they can do more than a named template.
const NamedTemplate* detect_named_template(std::string_view jinja);

}  // namespace billow::prompt
