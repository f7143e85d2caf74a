#include "http/service.h"

#include <exception>
#include <utility>

#include "base/log.h"
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

}  // namespace

Service::Service(ServerOptions options, std::vector<Route> routes)
    : options_(std::move(options)),
      routes_(std::move(routes)),
      router_(patterns_of(routes_)),
      handlers_(kThreadIdleTime) {}

Response Service::error_response(int status, std::string_view path, std::string_view text) const {
  if (!options_.shape_error) return text_response(status, text);
  try {
    return options_.shape_error(status, path, text);
  } catch (const std::exception& error) {
    log::warn(std::string("an error could not be put in its form: ") + error.what());
    return text_response(status, text);
  }
}

Decision Service::decide(RequestHead& head, BindKind bind, const std::string& peer) const {
  Decision decision;
  decision.keep_alive = head.keep_alive;
  Request& request = decision.request;
  request.method = head.method;
  request.target = std::move(head.target);
  request.headers = std::move(head.headers);
  request.peer = peer;
  std::optional<Target> target = parse_target(request.target);
  if (!target) {
    decision.answer = error_response(400, "", "malformed request target");
    return decision;
  }
  request.path = std::move(target->path);
  request.query = std::move(target->query);
  if (draining_) {
    decision.keep_alive = false;
    decision.answer = error_response(503, request.path, "the server is shutting down");
    return decision;
  }
  if (options_.admit) {
    Verdict verdict = options_.admit(request, bind);
    decision.added = std::move(verdict.headers);
    decision.answer = std::move(verdict.answer);
    if (decision.answer) return decision;
  }
  RouteMatch match = router_.match(request.method, target->raw_path, target->raw_query);
  if (match.kind == RouteMatch::Kind::kFound) {
    decision.route = &routes_[match.route];
    request.parameters = std::move(match.parameters);
    return decision;
  }
  Response plain = unrouted_response(match);
  if (match.kind == RouteMatch::Kind::kRedirect || !options_.shape_error) {
    decision.answer = std::move(plain);
  } else {
    decision.answer = error_response(match.status, request.path, plain.body);
    for (const Headers::Field& field : plain.headers) {
      decision.answer->headers.set(field.name, field.value);
    }
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
