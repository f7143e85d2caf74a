// /v1/responses: creates, shows and deletes responses.
#pragma once

#include <memory>
#include <vector>

#include "api/call.h"
#include "api/generator.h"
#include "api/openai/response_store.h"

namespace billow::api::openai {

// REQUIRES: the generator outlives the routes. Handlers are thread-safe.
std::vector<Route> response_routes(Generator& generator, std::shared_ptr<ResponseStores> stores);

}  // namespace billow::api::openai
