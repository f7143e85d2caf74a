// One request inside an API handler: the HTTP exchange, the request's trace and its cancellation.
// The server creates a Call. A handler uses it on the handler's thread, and only until the handler
// returns.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "api/answer.h"
#include "http/exchange.h"
#include "metrics/trace.h"

namespace billow::api {

class Call {
 public:
  // `headers` are added to every answer, for example X-Request-Id.
  Call(http::Exchange& exchange, metrics::Trace& trace, std::stop_token stop,
       http::Headers headers = {})
      : exchange_(exchange), trace_(trace), stop_(std::move(stop)), headers_(std::move(headers)) {}

  const http::Request& request() const noexcept { return exchange_.request(); }
  metrics::Trace& trace() noexcept { return trace_; }
  // Set when the client disconnects, or when the server cancels the request before it ends.
  const std::stop_token& stop() const noexcept { return stop_; }
  // True if the server has cancelled the request and the client can still receive an error.
  bool is_cancelled_by_server() const noexcept {
    return stop_.stop_requested() && !exchange_.client_gone();
  }

  // These functions do the same as those of http::Exchange and add the headers. Decode the result
  // of take_body() in the same statement, so that its memory is free while the answer is generated.
  http::Body take_body() { return exchange_.take_body(); }
  size_t read_body(std::span<char> buffer) { return exchange_.read_body(buffer); }
  bool respond(http::Response response);
  bool begin_stream(int status, std::string_view content_type, std::string_view first = {});
  bool write(std::string_view bytes) { return reached(exchange_.write(bytes)); }
  bool finish(std::string_view last = {}) { return reached(exchange_.finish(last)); }

  // Adds a header to the answer. Call it before the answer begins.
  void add_header(std::string name, std::string value) {
    headers_.set(std::move(name), std::move(value));
  }
  // Sets the displayed name of the model, for metrics and the log.
  void set_model(std::string name) { model_ = std::move(name); }
  const std::string& model() const noexcept { return model_; }
  int status() const noexcept { return status_; }  // 0: nothing has been answered yet
  // True if the client disconnected before the end of a stream.
  bool is_cut_off() const noexcept { return is_cut_off_; }
  // Records for metrics and the log that an answer failed after it had begun.
  void fail(int status, std::string error) {
    status_ = status;
    error_ = std::move(error);
  }
  const std::string& error() const noexcept { return error_; }

 private:
  bool reached(bool is_connected) noexcept {
    is_cut_off_ = is_cut_off_ || !is_connected;
    return is_connected;
  }

  http::Exchange& exchange_;
  metrics::Trace& trace_;
  std::stop_token stop_;
  http::Headers headers_;
  std::string model_;
  int status_ = 0;
  bool is_cut_off_ = false;
  std::string error_;
};

// Returns whether the request has the header `X-Billow-Priority: bulk`: it starts only while no
// other request waits.
bool is_bulk(const http::Request& request);

// Adds headers to the answer: the size of the request's context, the reason for it, and how far the
// prompt was shortened.
void report_sizing(Call& call, const Sizing& sizing);

// Records the request's unknown fields in the trace and in a debug line.
void report_unknown_fields(Call& call, const std::vector<std::string>& names);

// How long a stream waits for the first token before it sends its head. Until then, a balancer can
// still send the request to another host.
inline constexpr std::chrono::seconds kHeadTimeout{10};

using CallHandler = std::function<void(Call&)>;

// A row of an API's route table. An exception of the handler becomes an answer in the API's error
// format.
struct Route {
  std::vector<http::Method> methods{};
  std::string pattern{};
  CallHandler handler{};
  bool streams_body = false;
  std::optional<uint64_t> max_body_bytes{};
  bool writes_store = false;  // answered with 403 if the store is read-only
  bool is_traced = false;     // the server keeps its traces
  // Monitoring programs poll this route. Successful answers are logged at level debug.
  bool is_watched = false;
};

// Makes an error answer in the API's format.
using ShapeError = http::Response (*)(int status, std::string_view text);

}  // namespace billow::api
