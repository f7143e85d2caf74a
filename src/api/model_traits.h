// What a stored model's templates let it do. Pure; any thread.
#pragma once

#include <optional>

#include "prompt/capabilities.h"
#include "store/model.h"

namespace billow::api {

// Absent where the model has no such template, or a Go template that cannot be parsed.
struct TemplateTraits {
  std::optional<prompt::TemplateCapabilities> go;
  std::optional<prompt::TemplateCapabilities> jinja;  // of its GGUF file
};
TemplateTraits template_traits(const store::Model& model);

// For store::capabilities, which reads the Jinja template itself. Built-in parsers are not among
// what Billow has, so they add nothing.
store::PromptTraits traits_of(const store::Model& model);

}  // namespace billow::api
