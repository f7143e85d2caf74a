// What the requests of several of OpenAI's routes have in common: sampling, stops, reasoning and
// the extensions, read and put into the words of a GenerationRequest. Pure functions; any thread.
// All throw http::StatusError (400).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/fields.h"
#include "api/generation.h"

namespace billow::api::openai {

// A request to write, decoded.
struct TextRequest {
  std::vector<GenerationRequest> generations{};  // one for each prompt
  size_t n = 1;                                  // choices for each prompt
  size_t best_of = 1;                            // at least n: so many are written, the best n kept
  bool stream = false;
  bool include_usage = false;  // of a stream, in a chunk of its own
  bool shows_logprobs = false;
  bool legacy_calls = false;  // "function_call" in place of "tool_calls"
  std::vector<std::string> unknown_fields{};
};

enum class TextRoute : uint8_t { kChat, kCompletions };

// Fields::parse, but an empty body is "EOF".
Fields parse_body(std::string_view body, std::string_view type);

// What both routes that write have, with one generation: model, options, grammar, n, stream,
// stream_options, keep_alive and _debug_render_only, which is never streamed.
TextRequest decode_common(const Fields& fields, TextRoute route);

// The options: temperature and top_p are 1.0 unless given, whatever the model has. Beside OpenAI's
// fields, which win, there may be those of vLLM and llama-server (top_k, min_p, mirostat ...), an
// object "options" as in Ollama's API, and "num_ctx".
Options sampling_options(const Fields& fields, TextRoute route);

// The same, but nothing that the request does not say.
Options given_options(const Fields& fields);

// The object "options" and "num_ctx" alone.
Options extra_options(const Fields& fields);

// "n", "best_of": from 1 to kMaxChoices; 1 if absent.
size_t choices_of(const Fields& fields, std::string_view name);

// From 0 to 20; 0 if absent.
int top_logprobs(const Fields& fields, std::string_view name);

// Of reasoning.effort, or reasoning_effort.
Think think_of(const Fields& fields);

}  // namespace billow::api::openai
