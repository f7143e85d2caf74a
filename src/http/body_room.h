// Allocates memory for a body that is being read. Each body belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "http/body_budget.h"

namespace billow::http {

// Makes room for `n_bytes` more in `body`, which has at most `n_max` bytes in the end. The budget
// counts the text itself. While the text moves to a larger buffer, both copies exist for a moment.
// Returns false if the budget or the system has no memory.
[[nodiscard]] bool make_room(Body& body, size_t n_bytes, uint64_t n_max);

// Returns the error text for a body that has no room.
std::string no_room_text(const BodyBudget& budget);

}  // namespace billow::http
