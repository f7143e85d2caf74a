// Transitions and compactions as text and JSON.
#pragma once

#include <cstddef>
#include <string>

#include "base/json_fwd.h"
#include "engine/sequence.h"

namespace billow::engine {

// "[transition] ctx512 -> ctx1024 at tokens=512 (0.0 ms, avg decode 45.2 t/s)" or
// "[compact] ctx4096 drop=3478 keep=618 (310.0 ms, avg decode 42.1 t/s)"
std::string event_line(const SequenceEvent& event);

// The same without the rate, as the summary lists it:
// "ctx512->ctx1024 at token_count=512 (0.0 ms)" or "ctx4096 drop=3478 keep=618 (310.0 ms)"
std::string event_summary(const SequenceEvent& event);

// The tokens that a compaction keeps, where they are evaluated again.
size_t evaluated_again(const SequenceEvent& event);

Json event_json(const SequenceEvent& event);

}  // namespace billow::engine
