// llama-server's routes of slots: GET /slots and POST /slots/:id. See api/slots.h for what a slot
// is here, and api/slot_files.h for what a saved slot is.
#pragma once

#include <vector>

#include "api/call.h"
#include "api/llama/routes.h"

namespace billow::api::llama {

// REQUIRES: the objects in `sources` outlive the routes. Handlers are thread-safe.
std::vector<Route> slot_routes(const Sources& sources);

}  // namespace billow::api::llama
