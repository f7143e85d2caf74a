#include "http/service.h"

#include <exception>
#include <utility>

#include "base/log.h"
#include "http/status.h"
#include "http/url.h"

namespace billow::http {
namespace {

// How long a thread of the pool waits for the next request before it ends.
constexpr std::chrono::milliseconds kThreadIdleTime{30'000};

std::vector<RoutePattern> patterns_of(const std::vector<Route>& routes) {
  std::vector<RoutePattern> patterns;
  patterns.reserve(routes.size());
  for (const Route& route : routes) patterns.push_back({route.methods, route.pattern});
  return patterns;
}

uint64_t max_bodies_bytes(const ServerOptions& options) {
  if (options.max_bodies_bytes > 0) return options.max_bodies_bytes;
  return options.max_body_bytes > UINT64_MAX / 2 ? UINT64_MAX : 2 * options.max_body_bytes;
}

}  // namespace

Service::Service(ServerOptions options, std::vector<Route> routes, std::function<bool()> io_turn)
    : options_(std::move(options)),
      routes_(std::move(routes)),
      router_(patterns_of(routes_)),
      handlers_(kThreadIdleTime, std::move(io_turn)),
      bodies_(max_bodies_bytes(options_)) {}

Response Service::error_response(int status, std::string_view path, std::string_view text) const {
  if (!options_.shape_error) return text_response(status, text);
  try {
    return options_.shape_error(status, path, text);
  } catch (const std::exception& error) {
    log::warn(std::string("cannot format an error response: ") + error.what());
    return text_response(status, text);
  }
}

Headers Service::report(const UnhandledAnswer& answer) const {
  return options_.on_unhandled ? options_.on_unhandled(answer) : Headers();
}

Decision Service::decide(RequestHead& head, BindKind bind, const std::string& peer) const {
  Decision decision;
  decision.keep_alive = head.keep_alive;
  Request& request = decision.request;
  request.method = head.method;
  request.target = std::move(head.target);
  request.headers = std::move(head.headers);
  request.peer = peer;
  const auto refuse = [&](int status, std::string text) {
    decision.answer = error_response(status, request.path, text);
    decision.why = std::move(text);
  };
  std::optional<Target> target = parse_target(request.target);
  if (!target) {
    refuse(400, "malformed request target");
    return decision;
  }
  request.path = std::move(target->path);
  request.query = std::move(target->query);
  RouteMatch match = router_.match(request.method, target->raw_path, target->raw_query);
  const bool is_found = match.kind == RouteMatch::Kind::kFound;
  if (is_found) decision.route = &routes_[match.route];
  const bool is_draining = draining_;
  if (is_draining) decision.keep_alive = false;
  if (options_.admit) {
    Verdict verdict =
        options_.admit(request, bind, is_found ? std::string_view(decision.route->pattern) : "");
    decision.added = std::move(verdict.headers);
    decision.answer = std::move(verdict.answer);
    request.user = std::move(verdict.user);
    if (!verdict.refusal.empty()) refuse(verdict.status, std::move(verdict.refusal));
    if (decision.answer) return decision;
  }
  if (is_draining) {
    refuse(503, std::string(kShuttingDown));
    return decision;
  }
  if (is_found) {
    request.parameters = std::move(match.parameters);
    return decision;
  }
  Response plain = unrouted_response(match);
  if (match.kind == RouteMatch::Kind::kRedirect) {
    decision.answer = std::move(plain);
    return decision;
  }
  refuse(match.status, plain.body);
  if (!options_.shape_error) decision.answer = plain;
  for (const Headers::Field& field : plain.headers) {
    decision.answer->headers.set(field.name, field.value);
  }
  return decision;
}

void EndConnection::operator()(Service* service) const { service->n_connections_.fetch_sub(1); }

ConnectionTicket Service::begin_connection() {
  ConnectionTicket ticket(this);
  if (n_connections_.fetch_add(1) >= options_.max_connections) ticket.reset();
  return ticket;
}

void Service::begin_request() { n_active_requests_.fetch_add(1); }

void Service::end_request() {
  {
    const std::lock_guard lock(mutex_);
    n_active_requests_.fetch_sub(1);
  }
  request_ended_.notify_all();
}

bool Service::wait_for_requests(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return request_ended_.wait_for(lock, timeout, [&] { return n_active_requests_ == 0; });
}

}  // namespace billow::http
