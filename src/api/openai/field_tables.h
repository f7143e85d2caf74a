// What becomes of each field of OpenAI's requests to write, and of those that vLLM, llama-server
// and Ollama have beside them. Immutable.
#pragma once

#include <span>

#include "api/field_rules.h"

namespace billow::api::openai {

extern const FieldTable kChatFields;
extern const FieldTable kCompletionFields;
extern const FieldTable kResponseFields;

}  // namespace billow::api::openai
