// What all connections of a server share, and what it decides about a request before its handler.
// Owned by the Server; outlives the connections. Any thread may call.
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

// What is to be done with a request whose head was read.
struct Decision {
  Request request;
  Headers added;                   // to the answer
  std::optional<Response> answer;  // else the route takes it
  std::string why;                 // of an answer that refuses
  const Route* route = nullptr;    // the one that the request is for, also where it is answered
  bool keep_alive = true;
};

class Service;
struct EndConnection {
  void operator()(Service* service) const;
};
// Counts a connection as open as long as it lives.
using ConnectionTicket = std::unique_ptr<Service, EndConnection>;

class Service {
 public:
  // `io_turn`: one step of the connections' I/O, as HandlerPool's turn.
  Service(ServerOptions options, std::vector<Route> routes, std::function<bool()> io_turn);

  const ServerOptions& options() const noexcept { return options_; }
  HandlerPool& handlers() noexcept { return handlers_; }
  BodyBudget& bodies() noexcept { return bodies_; }

  Decision decide(RequestHead& head, BindKind bind, const std::string& peer) const;
  Response error_response(int status, std::string_view path, std::string_view text) const;

  // The one way by which an answer that no handler gives becomes known. Returns header fields for
  // the answer.
  Headers report(const UnhandledAnswer& answer) const;

  // Requests on open connections are answered with 503 from now on.
  void start_draining() noexcept { draining_ = true; }

  // Null: there are too many already.
  [[nodiscard]] ConnectionTicket begin_connection();
  size_t n_connections() const noexcept { return n_connections_; }

  void begin_request();
  void end_request();
  size_t n_active_requests() const noexcept { return n_active_requests_; }
  // Waits until no request is active. False: one still is after the timeout.
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
