#include "server/calls.h"

#include <fmt/format.h>

#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "api/anthropic/errors.h"
#include "api/llama/errors.h"
#include "api/ollama/errors.h"
#include "api/openai/errors.h"
#include "api/tei/errors.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/utf8.h"
#include "http/status.h"
#include "scheduler/runner.h"
#include "server/gate.h"

namespace billow::server {
namespace {

using metrics::Clock;

// Delay before a retry. Clients that retry immediately would find the server just as busy.
constexpr const char* kRetrySeconds = "1";
constexpr int kClientGone = 499;

struct Failure {
  int status = 500;
  std::string text;
};

// Returns the status and the error message for an exception of a handler.
Failure failure_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const http::StatusError& error) {
    return {error.status(), error.what()};
  } catch (const Error& error) {
    return {http::status_of(error.code()), error.what()};
  } catch (const scheduler::Cancelled& error) {
    return {kClientGone, error.what()};
  } catch (const Json::exception& error) {
    // A fault of the program, because requests are validated field by field. The details go to the
    // log.
    log::warn(std::string("unexpected type of a JSON value: ") + error.what());
    return {500, "internal error: unexpected type of a JSON value; see the log of the server"};
  } catch (const std::exception& error) {
    return {500, error.what()};
  } catch (...) {
    return {500, "the handler failed"};
  }
}

int64_t unix_ms() {
  using std::chrono::milliseconds;
  return std::chrono::duration_cast<milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string request_id(const http::Request& request) {
  const std::string_view given = request.headers.get("X-Request-Id");
  return metrics::is_request_id(given) ? std::string(given) : metrics::new_request_id();
}

// Returns the header fields of every response.
http::Headers common_headers(const CallContext& context, const std::string& id) {
  http::Headers headers{{"X-Request-Id", id}};
  if (!context.node_name.empty()) headers.add("X-Billow-Node", context.node_name);
  return headers;
}

// Route label of requests without a route. Paths must not become labels.
constexpr std::string_view kNoRoute = "none";

// A response in the log and the metrics.
struct Record {
  const http::Request& request;
  std::string_view route;
  std::string_view model{};
  std::string_view id{};
  std::string_view trace{};  // set if it differs from the id
  int status = 0;
  Clock::duration time{};
  std::string_view key{};  // name of the API key
  std::string_view error{};
  bool is_watched = false;  // Route::is_watched
};

// Returns external text as a part of one line: shortened, without control characters.
std::string in_line(std::string_view text) {
  constexpr size_t kMaxBytes = 500;
  std::string line = utf8::sanitized(text.substr(0, kMaxBytes));
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return text.size() > kMaxBytes ? line + "..." : line;
}

// Counts and logs a response. All responses pass through this function.
void record(metrics::Metrics& metrics, const Record& response) {
  const auto part = [](const char* before, std::string_view text) {
    return text.empty() ? std::string() : before + in_line(text);
  };
  const std::string_view method = http::method_name(response.request.method);
  // The raw target: a decoded path may contain blanks or line ends that imitate another log line.
  const std::string_view target =
      std::string_view(response.request.target).substr(0, response.request.target.find('?'));
  const std::string line = fmt::format(
      "{} {} {} {:.3f} ms{}{}{}{}{}", response.status, method.empty() ? "-" : method,
      target.empty() ? "-" : in_line(target),
      std::chrono::duration<double, std::milli>(response.time).count(),
      part(" model=", response.model), part(" id=", response.id), part(" trace=", response.trace),
      part(" key=", response.key), part(": ", response.error));
  if (response.status >= 500 && response.status != 503) {
    log::warn(line);
  } else if (response.is_watched && response.status < 400) {
    log::debug(line);
  } else {
    log::info(line);
  }
  metrics.request(response.model, response.route, response.status, response.time);
}

class Caller {
 public:
  Caller(CallContext& context, api::Route route)
      : context_(context), route_(std::move(route)), access_(access_of(route_.pattern)) {}

  void operator()(http::Exchange& exchange) const {
    const std::string id = request_id(exchange.request());
    const std::shared_ptr<metrics::Trace> trace =
        route_.is_traced ? context_.traces.start(id, route_.pattern, context_.node_name)
                         : std::make_shared<metrics::Trace>(id, route_.pattern, context_.node_name);
    trace->set_parent(exchange.request().headers.get("traceparent"));
    trace->set_key(exchange.request().user);
    std::stop_source stop;
    api::Call call(exchange, *trace, stop.get_token(), common_headers(context_, id));
    exchange.on_client_gone([&stop] { stop.request_stop(); });
    Failure failure;
    std::exception_ptr broken;  // the client must see that the response is incomplete
    std::shared_ptr<keys::Account> account;
    std::optional<keys::Account::Use> use;  // counts this request for its key
    try {
      use = begin(call, account);
      if (route_.writes_store && context_.read_only)
        throw http::StatusError(403, "the model store of this server is read-only");
      trace->mark("received");
      tell_begin(*trace);
      route_.handler(call);
    } catch (...) {
      failure = failure_of(std::current_exception());
      // The client is still connected, so the server has cancelled the request.
      if (failure.status == kClientGone && call.is_cancelled_by_server())
        failure = {503, std::string(http::kShuttingDown)};
      if (call.status() == 0)
        respond(call, failure);
      else
        broken = std::current_exception();
    }
    exchange.on_client_gone(nullptr);
    if (account != nullptr) {
      const metrics::Usage usage = trace->usage();
      account->take(usage.n_evaluated(), usage.n_generated, Clock::now());
    }
    use.reset();
    finish(call, id, trace, failure);
    if (broken) std::rethrow_exception(broken);
  }

 private:
  // Counts a request for its API key. Throws http::StatusError if the key or its limits refuse it.
  std::optional<keys::Account::Use> begin(api::Call& call,
                                          std::shared_ptr<keys::Account>& account) const {
    if (context_.keys == nullptr || !access_.role) return std::nullopt;
    account = context_.keys->account(call.request().user);
    if (account == nullptr) {  // the key was revoked after the gate had accepted it
      context_.keys->count_refusal(keys::Refusal::kUnknownKey);
      call.add_header("WWW-Authenticate", std::string(kChallenge));
      throw http::StatusError(401, "the API key was revoked");
    }
    keys::Account::Begin begun = keys::Account::begin(account, access_.is_limited, Clock::now());
    if (!begun.use) {
      call.add_header("Retry-After", std::to_string(begun.retry_after));
      throw http::StatusError(429, begun.why);
    }
    call.trace().set_key(account->name(), account->weight());
    return std::move(begun.use);
  }

  static void respond(api::Call& call, const Failure& failure) {
    const http::Request& request = call.request();
    call.respond(shape_error(failure.status, request.path, failure.text, call.trace().id(),
                             api::anthropic::is_route(request)));
  }

  void finish(const api::Call& call, const std::string& id,
              const std::shared_ptr<metrics::Trace>& kept, const Failure& failure) const {
    metrics::Trace& trace = *kept;
    Failure end{call.status() == 0 ? failure.status : call.status(),
                call.error().empty() ? failure.text : call.error()};
    const bool is_gone = failure.status == kClientGone;
    if (is_gone) end = failure;
    if ((is_gone || call.is_cut_off()) && end.text.empty())
      end = {kClientGone, "the client disconnected"};
    const Clock::duration time = Clock::now() - trace.began();
    if (!call.model().empty()) trace.set_model(call.model());
    trace.finish(end.status, end.text);
    tell_end(trace);
    if (route_.is_traced && context_.exporter != nullptr) context_.exporter->take(kept);
    record(context_.metrics, {.request = call.request(),
                              .route = route_.pattern,
                              .model = call.model(),
                              .id = id,
                              .trace = trace.id() == id ? std::string_view() : trace.id(),
                              .status = end.status,
                              .time = time,
                              .key = call.request().user,
                              .error = end.text,
                              .is_watched = route_.is_watched});
  }

  // Publishes events of the requests whose traces are kept.
  void tell_begin(const metrics::Trace& trace) const {
    if (!route_.is_traced || !context_.feed.has_readers()) return;
    context_.feed.publish(
        "request",
        {{"time", unix_ms()}, {"id", trace.id()}, {"route", trace.route()}, {"state", "begun"}});
  }
  void tell_end(const metrics::Trace& trace) const {
    if (!route_.is_traced || !context_.feed.has_readers()) return;
    Json json = trace.summary();
    json["time"] = unix_ms();
    json["state"] = "ended";
    context_.feed.publish("request", json);
  }

  CallContext& context_;
  api::Route route_;
  RouteAccess access_;
};

}  // namespace

http::Response shape_error(int status, std::string_view path, std::string_view given,
                           std::string_view id, bool is_anthropic) {
  const std::string text = metrics::bounded_error(given);
  const bool is_openai =
      path.starts_with("/v1/") || path == "/chat/completions" || path == "/models";
  const api::ShapeError shape = is_openai                    ? api::openai::error_response
                                : api::tei::is_route(path)   ? api::tei::error_response
                                : api::llama::is_route(path) ? api::llama::error_response
                                                             : api::ollama::shape_error;
  http::Response response = is_anthropic || api::anthropic::is_route(path)
                                ? api::anthropic::error_response(status, text, id)
                                : shape(status, text);
  if (status == 503) response.headers.set("Retry-After", kRetrySeconds);
  return response;
}

http::Headers record_unhandled(CallContext& context, const http::UnhandledAnswer& answer) {
  const std::string id = request_id(answer.request);
  record(context.metrics, {.request = answer.request,
                           .route = answer.route.empty() ? kNoRoute : answer.route,
                           .id = id,
                           .status = answer.status,
                           .time = answer.time,
                           .key = answer.request.user,
                           .error = answer.why});
  return common_headers(context, id);
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
