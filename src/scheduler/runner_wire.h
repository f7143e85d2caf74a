// Encodes requests to a runner and decodes its responses: the counterpart of runner/protocol.h and
// the routes in runner/service.h. Responses are not trusted: an invalid response throws
// http::StatusError (500). Pure functions; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "scheduler/runner.h"

namespace billow::scheduler {

// Returns a line of JSON and the prompt's token ids.
std::string completion_body(const Completion& request);

// A line of a completion's response: a chunk or the end. parse_completion_line() throws the error
// of an error line.
struct CompletionLine {
  bool is_end = false;
  CompletionPiece piece;
  CompletionEnd end;
};
CompletionLine parse_completion_line(std::string_view line);

// Returns the body in the format of runner/protocol.h.
std::string embed_body(const EmbedJob& job);
// REQUIRES: n_vectors is the number of inputs.
EmbedOutputs parse_vectors(std::string_view body, size_t n_vectors);

RunnerHealth parse_health(std::string_view body);
std::vector<Prefix> parse_prefixes(std::string_view body);
TextKv parse_text_kv(std::string_view body);
// Returns the text of {"error":"..."}. For any other body, returns its beginning.
std::string error_text(std::string_view body);

// Returns one line of JSON. Invalid UTF-8 is replaced.
std::string json_text(const Json& json);

}  // namespace billow::scheduler
