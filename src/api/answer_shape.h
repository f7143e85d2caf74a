// What an answer may be, and how it is read: the format in which the model writes, and the grammar
// that the answer is held to. Pure; any thread.
//
// - A request with a grammar: the answer is held to it, behind what the model thinks first.
// - tool_choice "required", or a function: the answer is held to a JSON array of calls,
//   [{"name":...,"arguments":{...}}], whatever the model's own form of calls is, as all arguments
//   are held to their schemas then.
// - A JSON grammar beside tools that may be called: the answer is either of both.
// - Strict tools that may be called: where the model's own form of calls is JSON behind a marker,
//   what follows the marker is held to the schemas of all tools, one call to an answer.
#pragma once

#include <optional>

#include "api/generation.h"
#include "constraint/grammar.h"
#include "output/format.h"

namespace billow::api {

struct AnswerShape {
  output::Format format;
  std::optional<constraint::Constraint> constraint{};
};

// Throws http::StatusError (400) with one line that names what in a grammar cannot be held.
AnswerShape shape_of(const GenerationRequest& request, const output::Format& format,
                     const output::Start& start);

}  // namespace billow::api
