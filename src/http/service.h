// The state that all connections of a server share, and the decisions about a request before its
// handler runs. The Server owns the Service, which outlives the connections. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "http/body_budget.h"
#include "http/handler_pool.h"
#include "http/parser.h"
#include "http/router.h"
#include "http/server.h"

namespace billow::http {

// The decision about a request after its head was read.
struct Decision {
  Request request;
  Headers added;                   // extra fields for the response
  std::optional<Response> answer;  // nullopt: the handler of the route answers
  std::string why;                 // why the request is refused
  const Route* route = nullptr;    // the request's route, set even if `answer` is set
  bool keep_alive = true;
};

class Service;
struct EndConnection {
  void operator()(Service* service) const;
};
// Counts a connection as open during its lifetime.
using ConnectionTicket = std::unique_ptr<Service, EndConnection>;

class Service {
 public:
  // `io_turn`: one step of the connections' I/O; see HandlerPool's turn.
  Service(ServerOptions options, std::vector<Route> routes, std::function<bool()> io_turn);

  const ServerOptions& options() const noexcept { return options_; }
  HandlerPool& handlers() noexcept { return handlers_; }
  BodyBudget& bodies() noexcept { return bodies_; }

  Decision decide(RequestHead& head, BindKind bind, const std::string& peer) const;
  Response error_response(int status, std::string_view path, std::string_view text) const;

  // Reports a response that the server sends without a handler. All such responses pass through
  // here. Returns header fields for the response.
  Headers report(const UnhandledAnswer& answer) const;

  // From this call on, requests on open connections get status 503, unless ServerOptions::admit
  // answers or refuses them.
  void start_draining() noexcept { draining_ = true; }

  // Returns null if too many connections are open.
  [[nodiscard]] ConnectionTicket begin_connection();
  size_t n_connections() const noexcept { return n_connections_; }

  void begin_request();
  void end_request();
  size_t n_active_requests() const noexcept { return n_active_requests_; }
  // Waits until no request is active. Returns false after the timeout.
  bool wait_for_requests(std::chrono::milliseconds timeout);

 private:
  friend struct EndConnection;

  const ServerOptions options_;
  const std::vector<Route> routes_;
  const Router router_;
  HandlerPool handlers_;
  BodyBudget bodies_;
  std::atomic<bool> draining_{false};
  std::atomic<size_t> n_connections_{0};
  std::atomic<size_t> n_active_requests_{0};
  std::mutex mutex_;
  std::condition_variable request_ended_;
};

}  // namespace billow::http
