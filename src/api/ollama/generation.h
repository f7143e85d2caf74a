// Ollama's /api/generate and /api/chat: their JSON read into a GenerationRequest, and answers
// written as one object or as a stream of lines. Any thread.
#pragma once

#include <string>
#include <vector>

#include "api/call.h"
#include "api/fields.h"
#include "api/generation.h"
#include "api/generator.h"

namespace billow::api::ollama {

// Throw http::StatusError (400) for what is malformed.
GenerationRequest decode_generate(const Fields& fields);
GenerationRequest decode_chat(const Fields& fields);

// What comes of a request, as JSON in the form of either route. `created_at` as in utc_now_text();
// first_call: the index of the part's first call in the answer.
Json delta_json(GenerationKind kind, const std::string& model, const std::string& created_at,
                const WholeAnswer& part, size_t first_call = 0);
// The same as a line of a stream, made without the JSON where the part has only text and thinking.
std::string delta_line(GenerationKind kind, const std::string& model, const std::string& created_at,
                       const WholeAnswer& part, size_t first_call = 0);
Json end_json(GenerationKind kind, const std::string& model, const std::string& created_at,
              const WholeAnswer& all, const Ending& ending);

// POST /api/generate and /api/chat. The generator outlives the routes.
std::vector<Route> generation_routes(Generator& generator);

}  // namespace billow::api::ollama
