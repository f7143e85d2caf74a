// A request's options on top of its model's: which of them count, and what they say. Pure; any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/generation.h"
#include "scheduler/time.h"

namespace billow::api {

// What a request's num_ctx means.
enum class NumCtxPolicy : uint8_t {
  kIgnore,  // nothing: contexts have the size that they need
  kCap,     // the most that the context may have
};

// The members of an object of options that this server honours. Throws http::StatusError (500, as
// Ollama has it) for an option of a wrong type: option "num_ctx" must be of type integer.
Options options_of(const Json& object);
// The same of JSON text; what is no object has no options.
Options options_of_text(const std::string& json);

// The model's options, and over them, one by one, those of the request.
Options overlaid(const Options& model, const Options& request);

// "5m", -1, 0.5 ...; nothing for null and where there is no value. Throws http::StatusError (400).
std::optional<scheduler::Duration> keep_alive_of(const Json* value);

// Ollama's "format": "json" or a schema; nothing for null, "" and where there is no value. Throws
// http::StatusError (500, as Ollama has it) for what is neither.
std::optional<constraint::Grammar> format_of(const Json* value);

}  // namespace billow::api
