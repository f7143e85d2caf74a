// OpenAI's routes: /v1/chat/completions, /v1/completions, /v1/responses, /v1/embeddings and
// /v1/models.
#pragma once

#include <vector>

#include "api/call.h"
#include "api/embedder.h"
#include "api/generator.h"
#include "store/store.h"

namespace billow::api::openai {

// REQUIRES: the arguments outlive the routes. Handlers are thread-safe.
std::vector<Route> routes(Generator& generator, Embedder& embedder, const store::Store& store);

}  // namespace billow::api::openai
