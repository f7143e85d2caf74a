#include "server/calls.h"

#include <fmt/format.h>

#include <exception>
#include <memory>
#include <stop_token>
#include <utility>

#include "api/ollama/errors.h"
#include "api/openai/errors.h"
#include "api/tei/errors.h"
#include "base/error.h"
#include "base/log.h"
#include "http/status.h"
#include "scheduler/runner.h"

namespace billow::server {
namespace {

using metrics::Clock;

// Clients that come back at once would find what they left.
constexpr const char* kRetrySeconds = "1";
constexpr int kClientGone = 499;

struct Failure {
  int status = 500;
  std::string text;
};

// What the handler threw.
Failure failure_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const http::StatusError& error) {
    return {error.status(), error.what()};
  } catch (const Error& error) {
    return {http::status_of(error.code()), error.what()};
  } catch (const scheduler::Cancelled& error) {
    return {kClientGone, error.what()};
  } catch (const std::exception& error) {
    return {500, error.what()};
  } catch (...) {
    return {500, "the handler failed"};
  }
}

std::string request_id(const http::Request& request) {
  const std::string_view given = request.headers.get("X-Request-Id");
  return metrics::is_request_id(given) ? std::string(given) : metrics::new_request_id();
}

void log_call(const api::Call& call, const std::string& id, int status, Clock::duration time,
              const std::string& error) {
  const http::Request& request = call.request();
  const std::string line = fmt::format(
      "{} {} {} {:.3f} ms{}{} id={}{}", status, http::method_name(request.method), request.path,
      std::chrono::duration<double, std::milli>(time).count(),
      call.model().empty() ? "" : " model=", call.model(), id, error.empty() ? "" : ": " + error);
  status >= 500 && status != 503 ? log::warn(line) : log::info(line);
}

class Caller {
 public:
  Caller(CallContext& context, api::Route route) : context_(context), route_(std::move(route)) {}

  void operator()(http::Exchange& exchange) const {
    const std::string id = request_id(exchange.request());
    const std::shared_ptr<metrics::Trace> trace =
        route_.is_traced ? context_.traces.start(id, route_.pattern, context_.node_name)
                         : std::make_shared<metrics::Trace>(id, route_.pattern, context_.node_name);
    trace->set_parent(exchange.request().headers.get("traceparent"));
    std::stop_source stop;
    api::Call call(exchange, *trace, stop.get_token(), headers(id));
    exchange.on_client_gone([&stop] { stop.request_stop(); });
    Failure failure;
    std::exception_ptr broken;  // the answer had begun: whoever reads must see that it is not whole
    try {
      if (route_.writes_store && context_.read_only)
        throw http::StatusError(403, "the model store of this server is read-only");
      trace->mark("received");
      route_.handler(call);
    } catch (...) {
      failure = failure_of(std::current_exception());
      if (call.status() == 0)
        respond(call, failure);
      else
        broken = std::current_exception();
    }
    exchange.on_client_gone(nullptr);
    finish(call, *trace, failure);
    if (broken) std::rethrow_exception(broken);
  }

 private:
  http::Headers headers(const std::string& id) const {
    http::Headers headers{{"X-Request-Id", id}};
    if (!context_.node_name.empty()) headers.add("X-Billow-Node", context_.node_name);
    return headers;
  }

  static void respond(api::Call& call, const Failure& failure) {
    call.respond(shape_error(failure.status, call.request().path, failure.text));
  }

  void finish(const api::Call& call, metrics::Trace& trace, const Failure& failure) const {
    const std::string& error = call.error().empty() ? failure.text : call.error();
    const int status = call.status() == 0 ? failure.status : call.status();
    const Clock::duration time = Clock::now() - trace.began();
    if (!call.model().empty()) trace.set_model(call.model());
    trace.finish(status, error);
    context_.metrics.request(call.model(), route_.pattern, status, time);
    log_call(call, trace.id(), status, time, error);
  }

  CallContext& context_;
  api::Route route_;
};

}  // namespace

http::Response shape_error(int status, std::string_view path, std::string_view text) {
  const api::ShapeError shape = path.starts_with("/v1/")   ? api::openai::error_response
                                : api::tei::is_route(path) ? api::tei::error_response
                                                           : api::ollama::shape_error;
  http::Response response = shape(status, text);
  if (status == 503) response.headers.set("Retry-After", kRetrySeconds);
  return response;
}

std::vector<http::Route> http_routes(CallContext& context, std::vector<api::Route> routes) {
  std::vector<http::Route> made;
  for (api::Route& route : routes) {
    http::Route& row = made.emplace_back();
    row.methods = route.methods;
    row.pattern = route.pattern;
    row.streams_body = route.streams_body;
    row.max_body_bytes = route.max_body_bytes;
    row.handler = Caller(context, std::move(route));
  }
  return made;
}

}  // namespace billow::server
