// Routes of the APIs as routes of HTTP: each request gets its id, its trace, and a token that says
// when its client is gone. Every answer, of a route or without one, gets a line in the log and a
// place in the metrics.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/call.h"
#include "http/server.h"
#include "metrics/metrics.h"
#include "metrics/trace.h"

namespace billow::server {

// What all calls share; outlives the routes.
struct CallContext {
  metrics::Metrics& metrics;
  metrics::TraceStore& traces;
  std::string node_name;
  bool read_only = false;
};

// The answer to a failed request, in the form of the API that its path belongs to. `id`: of the
// request, where it is known.
http::Response shape_error(int status, std::string_view path, std::string_view text,
                           std::string_view id = {});

// For http::ServerOptions::on_unhandled: logs and counts an answer that no route gave. Returns the
// header fields that all answers have.
http::Headers record_unhandled(CallContext& context, const http::UnhandledAnswer& answer);

// `routes` as the server of HTTP takes them.
std::vector<http::Route> http_routes(CallContext& context, std::vector<api::Route> routes);

}  // namespace billow::server
