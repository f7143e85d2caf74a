// POST /v1/embeddings: its request decoded and its answer encoded. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>

#include "api/embedder.h"

namespace billow::api::openai {

struct EmbeddingsRequest {
  EmbedRequest embed{};
  bool base64 = false;  // vectors as base64 of little-endian floats
};

// Throws http::StatusError (400).
EmbeddingsRequest decode_embeddings(std::string_view body);

// The whole body, a line's end included. REQUIRES: finite values.
std::string embeddings_json(const EmbedReply& reply, std::string_view model, bool base64);

}  // namespace billow::api::openai
