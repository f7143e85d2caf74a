// What becomes of each field of Ollama's requests to write, and of their options. Immutable.
#pragma once

#include "api/field_rules.h"

namespace billow::api::ollama {

extern const FieldTable kGenerateFields;
extern const FieldTable kChatFields;
// The object "options" of both.
extern const FieldTable kOptionFields;

}  // namespace billow::api::ollama
