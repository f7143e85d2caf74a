// Parses the fields that several of OpenAI's routes share: sampling, stops, reasoning and
// extensions. Pure functions; thread-safe. All functions throw http::StatusError (400).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/fields.h"
#include "api/generation.h"

namespace billow::api::openai {

// A decoded generation request.
struct TextRequest {
  std::vector<GenerationRequest> generations{};  // one for each prompt
  size_t n = 1;                                  // choices for each prompt
  size_t best_of = 1;  // at least n: this many are generated, the best n are returned
  bool stream = false;
  bool include_usage = false;  // only for streams, in a separate chunk
  bool shows_logprobs = false;
  bool legacy_calls = false;  // "function_call" instead of "tool_calls"
  std::vector<std::string> unknown_fields{};
};

enum class TextRoute : uint8_t { kChat, kCompletions };

// Same as Fields::parse, except that an empty body is "EOF".
Fields parse_body(std::string_view body, std::string_view type);

// Parses the fields that both generation routes share, into one generation: model, options,
// grammar, n, stream, stream_options, keep_alive and _debug_render_only. A rendered prompt is never
// streamed.
TextRequest decode_common(const Fields& fields, TextRoute route);

// Parses the options. temperature and top_p are 1.0 by default, even if the model sets others. On
// kCompletions, a top_p of 0 is 1.0, too. Also accepts options of vLLM and llama-server (n_predict,
// top_k, min_p, mirostat ...), an object "options" as in Ollama's API, and "num_ctx". OpenAI's
// fields take precedence.
Options sampling_options(const Fields& fields, TextRoute route);

// Parses the same without defaults: only options that the request sets, unchanged.
Options given_options(const Fields& fields);

// Parses only the object "options" and "num_ctx".
Options extra_options(const Fields& fields);

// Parses "id_slot". Returns nullopt if the server chooses the slot.
std::optional<int64_t> slot_of(const Fields& fields);

// Parses "n" or "best_of": 1 to kMaxChoices; default 1.
size_t choices_of(const Fields& fields, std::string_view name);

// Parses a number from 0 to 20; default 0.
int top_logprobs(const Fields& fields, std::string_view name);

// Parses reasoning.enabled, reasoning.effort, reasoning_effort and the flags of
// chat_template_kwargs. Refuses members of these objects that are not honoured.
Think think_of(const Fields& fields);

}  // namespace billow::api::openai
