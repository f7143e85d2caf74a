// How long a model stays loaded after its last request, in the forms in which people write it:
// Go's durations and seconds. Pure functions; any thread.
#pragma once

#include <string_view>

#include "scheduler/time.h"

namespace billow::scheduler {

// "300ms", "1h30m", "-1.5s", "0": numbers with units ns, us, µs, ms, s, m, h, and a sign in front.
// Throws Error (kInvalidInput) with the text that Go has for it.
Duration parse_duration(std::string_view text);

// Of a request's string: as above; negative is kForever.
Duration keep_alive_from_text(std::string_view text);
// Of a request's number: seconds; negative, or more than a duration holds, is kForever.
Duration keep_alive_from_seconds(double seconds);

}  // namespace billow::scheduler
