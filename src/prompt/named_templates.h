// Go templates that Billow knows by name, for models whose GGUF has a Jinja template only: the name
// is found by the marks that the Jinja text has. Constant tables; any thread may call.
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

// All of them, sorted by name.
std::span<const NamedTemplate> named_templates();

// Null if there is none of that name.
const NamedTemplate* find_named_template(std::string_view name);

// The one that renders as `jinja` does: nullptr unless it is one of the widely used texts, or
// differs from one in trifles. Templates that know tools or thinking are their own best form.
const NamedTemplate* detect_named_template(std::string_view jinja);

}  // namespace billow::prompt
