// How the server treats each field of Anthropic's requests. Immutable.
#pragma once

#include "api/field_rules.h"

namespace billow::api::anthropic {

extern const FieldTable kMessageFields;
extern const FieldTable kCountFields;

}  // namespace billow::api::anthropic
