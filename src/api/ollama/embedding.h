// Ollama's /api/embed and /api/embeddings. Any thread.
#pragma once

#include <vector>

#include "api/call.h"
#include "api/embedder.h"
#include "api/fields.h"

namespace billow::api::ollama {

// Throw http::StatusError (400) for what is malformed: "invalid input type".
EmbedRequest decode_embed(const Fields& fields);
EmbedRequest decode_embeddings(const Fields& fields);

// POST /api/embed and /api/embeddings. The embedder outlives the routes.
std::vector<Route> embedding_routes(Embedder& embedder);

}  // namespace billow::api::ollama
