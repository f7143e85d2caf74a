// Parses the fields of several APIs that constrain the answer. Pure functions; thread-safe.
#pragma once

#include <optional>

#include "api/fields.h"
#include "api/generation.h"

namespace billow::api {

// Returns the constraint of OpenAI's "response_format", vLLM's "structured_outputs" and "guided_*",
// and llama-server's "grammar" and "json_schema". Throws http::StatusError (400) if a field is
// malformed or two fields ask for different constraints.
std::optional<constraint::Grammar> grammar_of(const Fields& request);

// Returns a GBNF grammar if the text contains "::=", otherwise a Lark grammar.
constraint::Grammar grammar_text(std::string text);

// Returns a grammar that matches exactly these texts.
constraint::Grammar choice_grammar(const std::vector<std::string>& choices);

}  // namespace billow::api
