// Memory for a body that is being read. Each body is one thread's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "http/body_budget.h"

namespace billow::http {

// Room for `n_bytes` more in `body`, which will have at most `n_max`. What is in the text counts;
// while it moves to a larger place, it is there twice. False: the budget or the system does not
// have it.
[[nodiscard]] bool make_room(Body& body, size_t n_bytes, uint64_t n_max);

// The error text for a body without room.
std::string no_room_text(const BodyBudget& budget);

}  // namespace billow::http
