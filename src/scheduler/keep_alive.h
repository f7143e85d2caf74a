// Parses keep-alive times: Go's durations or seconds. Pure functions; any thread.
#pragma once

#include <string_view>

#include "scheduler/time.h"

namespace billow::scheduler {

// Parses "300ms", "1h30m", "-1.5s" or "0": numbers with the units ns, us, µs, ms, s, m and h, after
// an optional sign. Throws Error (kInvalidInput) with Go's message.
Duration parse_duration(std::string_view text);

// Parses the string of a request as above; negative means kForever.
Duration keep_alive_from_text(std::string_view text);
// Converts the number of a request, in seconds. Negative values and values beyond the max duration
// mean kForever.
Duration keep_alive_from_seconds(double seconds);

}  // namespace billow::scheduler
