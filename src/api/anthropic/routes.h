// Anthropic's routes: /v1/messages and /v1/messages/count_tokens.
#pragma once

#include <vector>

#include "api/call.h"
#include "api/generator.h"

namespace billow::api::anthropic {

// REQUIRES: the generator outlives the routes. Handlers are thread-safe.
std::vector<Route> routes(Generator& generator);

}  // namespace billow::api::anthropic
