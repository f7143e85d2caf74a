// What an answer is to be held to, as the fields of several APIs say it. Pure; any thread.
#pragma once

#include <optional>

#include "api/fields.h"
#include "api/generation.h"

namespace billow::api {

// The constraint of OpenAI's "response_format", vLLM's "structured_outputs" and "guided_*", and
// llama-server's "grammar" and "json_schema". Throws http::StatusError (400) for what is malformed,
// and where two fields ask for different constraints.
std::optional<constraint::Grammar> grammar_of(const Fields& request);

// A grammar that is GBNF where it has "::=", and Lark else.
constraint::Grammar grammar_text(std::string text);

// One of these texts.
constraint::Grammar choice_grammar(const std::vector<std::string>& choices);

}  // namespace billow::api
