// /v1/responses: answers are written, shown again, and deleted.
#pragma once

#include <memory>
#include <vector>

#include "api/call.h"
#include "api/generator.h"
#include "api/openai/response_store.h"

namespace billow::api::openai {

// The generator outlives the routes. Handlers may run on any number of threads.
std::vector<Route> response_routes(Generator& generator, std::shared_ptr<ResponseStore> store);

}  // namespace billow::api::openai
