// Encodes finished traces for OpenTelemetry collectors: the JSON form of OTLP, protocol version 1.
// Pure functions; any thread.
//
// A request becomes a span of kind SERVER with the attributes of OpenTelemetry's conventions for
// generative AI. The spans of its trace become children, and its moments become events. The
// JSON has numbers, ids, finish reasons, and the names of models, routes, spans and the host. It
// has no other texts: no prompts, answers, error messages or text attributes.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "metrics/trace.h"

namespace billow::metrics {

// The program that sends the traces.
struct OtlpResource {
  std::string version;  // of Billow
  std::string host;
};

// A trace with the ids of its spans.
struct OtlpTrace {
  TraceRecord record;
  std::string trace_id;     // 32 hexadecimal digits, not all of them 0
  std::string span_id;      // 16 hexadecimal digits, of the request; it determines its children's
  size_t n_spans() const {  // as the collector counts them
    size_t n = 1;
    for (const Span& span : record.spans) n += span.end > span.begin;
    return n;
  }
};

// Chooses new random ids. The trace id is that of the client, if the client sent one.
OtlpTrace with_ids(TraceRecord record);

// Returns the body of a request to /v1/traces: {"resourceSpans":[...]}.
std::string otlp_json(const OtlpResource& resource, std::span<const OtlpTrace> traces);

// Returns the name of the operation for a route: "chat", "text_completion", "embeddings", "rerank"
// or "slots".
std::string_view operation_of(std::string_view route);

}  // namespace billow::metrics
