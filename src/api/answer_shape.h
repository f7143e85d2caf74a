// Decides how an answer is parsed and which grammar it must match. Pure functions; thread-safe.
//
// - Request with a grammar: the answer matches the grammar. Thinking before the answer is free.
// - tool_choice "required", or a function: the answer matches a JSON array of calls,
//   [{"name":...,"arguments":{...}}]. The model's own call format is not used, because all
//   arguments must match their schemas.
// - JSON grammar and tools that may be called: the answer matches the grammar or the array of
//   calls.
// - Strict tools that may be called, and a model that writes calls as JSON after a marker: calls
//   match the schemas of all tools. If the model also writes a marker after its calls, text and
//   further calls may follow. Otherwise, or if only one call is allowed, the answer ends there.
// - Strict tools that may be called, and any other model: the schemas are not enforced.
#pragma once

#include <optional>

#include "api/generation.h"
#include "constraint/grammar.h"
#include "output/format.h"

namespace billow::api {

struct AnswerShape {
  output::Format format;
  output::Start start{};  // for the parser: what the grammar begins again is no continuation
  std::optional<constraint::Constraint> constraint{};
  bool ignores_strict = false;  // tools are strict, but their schemas are not enforced
};

// Throws http::StatusError (400) if the grammar is not supported. The one-line message names the
// unsupported part.
AnswerShape shape_of(const GenerationRequest& request, const output::Format& format,
                     const output::Start& start);

}  // namespace billow::api
