// What a stored model's templates let it do. Any thread.
#pragma once

#include "prompt/capabilities.h"
#include "store/model.h"

namespace billow::api {

// Which of the model's templates is used, and what it lets the model do: the one rule for answers,
// listings and what is shown. A template that a user gave in a Modelfile goes first, whatever the
// GGUF file has. A template that cannot be parsed is none, with a line in the log.
store::PromptTraits traits_of(const store::Model& model, prompt::GoTemplateUse use);

}  // namespace billow::api
