// For tests: an HTTP server with the routes of an API, and its client. Not thread-safe.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/call.h"
#include "base/json.h"
#include "http/client.h"
#include "http/server.h"
#include "metrics/trace.h"

namespace billow::api {

// Runs an API's handler for an exchange, like the program's server.
inline void handle(const Route& route, http::Exchange& exchange) {
  metrics::Trace trace("test", route.pattern, "test");
  std::stop_source stop;
  exchange.on_client_gone([stop]() mutable { stop.request_stop(); });
  Call call(exchange, trace, stop.get_token(), {{"X-Request-Id", "test"}});
  route.handler(call);
}

inline http::Route served(Route route) {
  return {.methods = route.methods,
          .pattern = route.pattern,
          .handler = [route](http::Exchange& exchange) { handle(route, exchange); },
          .streams_body = route.streams_body,
          .max_body_bytes = route.max_body_bytes};
}

class TestServer {
 public:
  TestServer(const std::vector<Route>& routes, ShapeError shape_error)
      : server_(options(shape_error), all(routes)),
        client_({.host = "127.0.0.1", .port = server_.port()}) {}

  uint16_t port() const { return server_.port(); }

  http::Response send(http::Method method, std::string target, std::string body = "",
                      http::Headers headers = {}) {
    http::Call call;
    call.method = method;
    call.target = std::move(target);
    call.headers = std::move(headers);
    call.body = std::move(body);
    return client_.send(call);
  }
  http::Response get(std::string target) { return send(http::Method::kGet, std::move(target)); }
  http::Response post(std::string target, std::string body) {
    return send(http::Method::kPost, std::move(target), std::move(body));
  }
  http::Response post_json(std::string target, const Json& body) {
    return post(std::move(target), body.dump());
  }

 private:
  static http::ServerOptions options(ShapeError shape_error) {
    http::ServerOptions options;
    options.host = "127.0.0.1";
    options.shape_error = [shape_error](int status, std::string_view, std::string_view text) {
      return shape_error(status, text);
    };
    return options;
  }
  static std::vector<http::Route> all(const std::vector<Route>& routes) {
    std::vector<http::Route> all;
    for (const Route& route : routes) all.push_back(served(route));
    return all;
  }

  http::Server server_;
  http::Client client_;
};

// Returns "200 {...}", the status and the body, for one-line comparisons.
inline std::string answer_text(const http::Response& response) {
  return std::to_string(response.status) + " " + response.body;
}

}  // namespace billow::api
