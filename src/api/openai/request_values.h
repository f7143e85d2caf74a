// What the requests of several of OpenAI's routes have in common: sampling, stops, reasoning and
// the extensions, read and put into the words of a GenerationRequest. Pure functions; any thread.
// All throw http::StatusError (400).
#pragma once

#include <string>
#include <string_view>

#include "api/fields.h"
#include "api/generation.h"

namespace billow::api::openai {

// A request to write, decoded.
struct TextRequest {
  GenerationRequest generation{};
  bool stream = false;
  bool include_usage = false;  // of a stream, in a chunk of its own
};

// Fields::parse, but an empty body is "EOF".
Fields parse_body(std::string_view body, std::string_view type);

// What both routes that write have: model, stream, stream_options, keep_alive and
// _debug_render_only, which is never streamed.
TextRequest decode_common(const Fields& fields);

// How the two differ.
enum class TextRoute { kChat, kCompletions };

// The options: temperature and top_p are 1.0 unless given, whatever the model has. Beside OpenAI's
// fields, which win, there may be an object "options" as in Ollama's API, and "num_ctx".
std::string sampling_options(const Fields& fields, TextRoute route);

// The object "options" and "num_ctx" alone.
std::string extra_options(const Fields& fields);

// "keep_alive" as Ollama's API has it, an extension here; empty if absent.
std::string keep_alive_json(const Fields& fields);

// Of response_format: "\"json\"", a schema, or empty.
std::string format_json(const Fields& fields);

// From 0 to 20; 0 if absent.
int top_logprobs(const Fields& fields, std::string_view name);

// Of reasoning.effort, or reasoning_effort.
Think think_of(const Fields& fields);

}  // namespace billow::api::openai
