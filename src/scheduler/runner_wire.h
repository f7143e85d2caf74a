// What goes to a runner and comes back, as bytes: the counterpart of runner/protocol.h and of the
// routes in runner/service.h. A runner's answers are not trusted: what is not of its kind throws
// http::StatusError (500). Pure functions; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "scheduler/runner.h"

namespace billow::scheduler {

// A line of JSON and the prompt's token ids.
std::string completion_body(const Completion& request);

// A line of a completion's answer: calls one of both. Throws what the line says is wrong.
struct CompletionLine {
  bool is_end = false;
  CompletionPiece piece;
  CompletionEnd end;
};
CompletionLine parse_completion_line(std::string_view line);

// In the form that runner/protocol.h gives.
std::string embed_body(const EmbedJob& job);
// REQUIRES: n_vectors is how many were asked for.
EmbedOutputs parse_vectors(std::string_view body, size_t n_vectors);

RunnerHealth parse_health(std::string_view body);
std::vector<int32_t> parse_tokens(std::string_view body);
std::string parse_content(std::string_view body);
std::vector<Prefix> parse_prefixes(std::string_view body);
// The text of {"error":"..."}, or the body's beginning where it is none.
std::string error_text(std::string_view body);

// One line, bytes that are no UTF-8 replaced.
std::string json_text(const Json& json);

}  // namespace billow::scheduler
