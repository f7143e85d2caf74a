// Summary of a finished answer, as text for people and as JSON.
#pragma once

#include <cstddef>
#include <string>

#include "base/json_fwd.h"
#include "cli/answer.h"

namespace billow::cli {

// Returns lines of name=value below "=== Summary ===". `kv_max` is the max KV memory so far, in
// bytes.
std::string summary_text(const Answer& answer, size_t kv_max);

// Returns the same values as JSON, without the events (see event_json).
Json summary_json(const Answer& answer, size_t kv_max);

}  // namespace billow::cli
