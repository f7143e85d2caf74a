// What an answer was and took, at its end: as text for people and as JSON.
#pragma once

#include <cstddef>
#include <string>

#include "base/json_fwd.h"
#include "cli/answer.h"

namespace billow::cli {

// Lines of name=value below "=== Summary ===". `kv_max`: the most KV memory so far, in bytes.
std::string summary_text(const Answer& answer, size_t kv_max);

// The same values; its events are in event_json's form, elsewhere.
Json summary_json(const Answer& answer, size_t kv_max);

}  // namespace billow::cli
