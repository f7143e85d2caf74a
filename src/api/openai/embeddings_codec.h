// Codec of POST /v1/embeddings. Pure functions; thread-safe.
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

// Returns the whole body, including a line end. REQUIRES: finite values.
std::string embeddings_json(const EmbedReply& reply, std::string_view model, bool base64);

}  // namespace billow::api::openai
