// Ollama's /api/embed and /api/embeddings. Thread-safe.
#pragma once

#include <vector>

#include "api/call.h"
#include "api/embedder.h"
#include "api/fields.h"

namespace billow::api::ollama {

// Both functions throw http::StatusError (400) for a malformed request: "invalid input type".
EmbedRequest decode_embed(const Fields& fields);
EmbedRequest decode_embeddings(const Fields& fields);

// Returns POST /api/embed and /api/embeddings. REQUIRES: the embedder outlives the routes.
std::vector<Route> embedding_routes(Embedder& embedder);

}  // namespace billow::api::ollama
