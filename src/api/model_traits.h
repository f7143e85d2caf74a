// What the templates of a stored model support. Thread-safe.
#pragma once

#include "prompt/capabilities.h"
#include "store/model.h"

namespace billow::api {

// Returns the template that the model uses and its features. Answers, listings and /api/show all
// use this rule. A template that a user wrote in a Modelfile takes precedence over that of the GGUF
// file. A template that cannot be parsed is ignored and logged.
store::PromptTraits traits_of(const store::Model& model, prompt::GoTemplateUse use);

}  // namespace billow::api
