// Formats transitions and compactions as text and JSON.
#pragma once

#include <cstddef>
#include <string>

#include "base/json_fwd.h"
#include "engine/sequence.h"

namespace billow::engine {

// Returns "[transition] ctx512 -> ctx1024 at tokens=512 (0.0 ms, avg decode 45.2 t/s)" or
// "[compact] ctx4096 drop=3478 keep=618 (310.0 ms, avg decode 42.1 t/s)".
std::string event_line(const SequenceEvent& event);

// Returns the same without the rate, for the summary: "ctx512->ctx1024 at token_count=512 (0.0 ms)"
// or "ctx4096 drop=3478 keep=618 (310.0 ms)".
std::string event_summary(const SequenceEvent& event);

// Returns how many tokens a refill evaluates again; 0 for other events.
size_t evaluated_again(const SequenceEvent& event);

Json event_json(const SequenceEvent& event);

}  // namespace billow::engine
