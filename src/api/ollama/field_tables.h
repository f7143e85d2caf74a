// How the server treats each field and option of Ollama's generation requests. Immutable.
#pragma once

#include "api/field_rules.h"

namespace billow::api::ollama {

extern const FieldTable kGenerateFields;
extern const FieldTable kChatFields;
// The object "options" of both requests.
extern const FieldTable kOptionFields;

}  // namespace billow::api::ollama
