// How the server treats each field of OpenAI's generation requests, and the extensions of vLLM,
// llama-server and Ollama. Immutable.
#pragma once

#include <span>

#include "api/field_rules.h"

namespace billow::api::openai {

extern const FieldTable kChatFields;
extern const FieldTable kCompletionFields;
extern const FieldTable kResponseFields;

}  // namespace billow::api::openai
