#include "http/body_room.h"

#include <algorithm>
#include <new>

namespace billow::http {

bool make_room(Body& body, size_t n_bytes, uint64_t n_max) {
  const size_t n_needed = body.text.size() + n_bytes;
  if (!body.reservation.grow_to(n_needed)) return false;
  if (n_needed <= body.text.capacity()) return true;
  // Twice the size saves copies, and the system allocates no memory before it is written.
  for (const uint64_t wanted : {std::min<uint64_t>(2 * n_needed, n_max), uint64_t{n_needed}}) {
    if (wanted < n_needed) continue;
    try {
      body.text.reserve(wanted);
      return true;
    } catch (const std::bad_alloc&) {  // a smaller size may succeed
    }
  }
  return false;
}

std::string no_room_text(const BodyBudget& budget) {
  return "the bodies of the running requests use all of the " + std::to_string(budget.max_bytes()) +
         " bytes that all bodies may use together; try again";
}

}  // namespace billow::http
