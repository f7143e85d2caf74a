// Turns API routes into HTTP routes. Each request gets an id, a trace and a stop token that reports
// a client disconnect. Every response is logged and counted, even if no route produced it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/call.h"
#include "http/server.h"
#include "keys/key_ring.h"
#include "metrics/metrics.h"
#include "metrics/trace.h"
#include "server/event_feed.h"
#include "server/trace_exporter.h"

namespace billow::server {

// Shared state of all calls. Must outlive the routes.
struct CallContext {
  metrics::Metrics& metrics;
  metrics::TraceStore& traces;
  EventFeed& feed;
  std::string node_name;
  bool read_only = false;
  keys::KeyRing* keys = nullptr;      // null: no key is needed
  TraceExporter* exporter = nullptr;  // gets all traces that are kept; may be null
};

// Returns the response for a failed request, in the format of the API that owns the path, or in
// Anthropic's. A long text is cut (metrics::bounded_error). `id` is the request id, if it is known.
http::Response shape_error(int status, std::string_view path, std::string_view text,
                           std::string_view id = {}, bool is_anthropic = false);

// Logs and counts a response that no route produced. For http::ServerOptions::on_unhandled. Returns
// the header fields that all responses have.
http::Headers record_unhandled(CallContext& context, const http::UnhandledAnswer& answer);

// Converts `routes` for the HTTP server.
std::vector<http::Route> http_routes(CallContext& context, std::vector<api::Route> routes);

}  // namespace billow::server
