// How the server treats each field of llama-server's own requests. Immutable.
#pragma once

#include "api/field_rules.h"

namespace billow::api::llama {

extern const FieldTable kCompletionFields;
extern const FieldTable kInfillFields;

}  // namespace billow::api::llama
