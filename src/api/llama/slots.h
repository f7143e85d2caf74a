// llama-server's routes of slots: GET /slots and POST /slots/:id. api/slots.h describes slots, and
// api/slot_files.h describes saved slots.
#pragma once

#include <vector>

#include "api/call.h"
#include "api/llama/routes.h"

namespace billow::api::llama {

// REQUIRES: the objects in `sources` outlive the routes. Handlers are thread-safe.
std::vector<Route> slot_routes(const Sources& sources);

}  // namespace billow::api::llama
