// Parses the options of a request and merges them with those of its model. Pure functions;
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/generation.h"
#include "scheduler/time.h"

namespace billow::api {

// The meaning of a request's num_ctx.
enum class NumCtxPolicy : uint8_t {
  kIgnore,  // no effect: contexts get the size that they need
  kCap,     // max size of the context
};

// Parses the options that this server honours. Throws http::StatusError for an option of a wrong
// type: option "num_ctx" must be of type integer. `status`: Ollama's own API has 500.
Options options_of(const Json& object, int status = 400);
// Does the same for the JSON text of a model's options, with the status 500. If it is not an
// object, returns no options.
Options options_of_text(const std::string& json);

// Returns the model's options; each option of the request overrides the model's.
Options overlaid(const Options& model, const Options& request);

// Parses "5m", -1, 0.5 ... Returns nothing for null and a missing value. Throws http::StatusError
// (400).
std::optional<scheduler::Duration> keep_alive_of(const Json* value);

// Parses Ollama's "format": "json" or a schema. Returns nothing for null, "" and a missing value.
// Throws http::StatusError (500, like Ollama) for anything else.
std::optional<constraint::Grammar> format_of(const Json* value);

}  // namespace billow::api
