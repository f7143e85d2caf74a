// Codec of Ollama's /api/generate and /api/chat. It parses JSON into a GenerationRequest, and
// writes answers as one object or as a stream of lines. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "api/call.h"
#include "api/fields.h"
#include "api/generation.h"
#include "api/generator.h"

namespace billow::api::ollama {

// Both functions throw http::StatusError (400) for a malformed request.
GenerationRequest decode_generate(const Fields& fields);
GenerationRequest decode_chat(const Fields& fields);

// Returns the bytes of the pictures in the field "images" of a message or request. Throws
// http::StatusError (400) if a text is not base64.
std::vector<std::string> images_of(const Fields& fields);

// Returns a part of an answer as JSON in the form of either route. `created_at` has the form of
// utc_now_text(). first_call: the index of the part's first call in the answer.
Json delta_json(GenerationKind kind, const std::string& model, const std::string& created_at,
                const WholeAnswer& part, size_t first_call = 0);
// Returns the same as a line of a stream. Fast for parts that have only text and thinking, because
// it builds no Json.
std::string delta_line(GenerationKind kind, const std::string& model, const std::string& created_at,
                       const WholeAnswer& part, size_t first_call = 0);
Json end_json(GenerationKind kind, const std::string& model, const std::string& created_at,
              const WholeAnswer& all, const Ending& ending);

// Returns POST /api/generate and /api/chat. REQUIRES: the generator outlives the routes.
std::vector<Route> generation_routes(Generator& generator);

}  // namespace billow::api::ollama
