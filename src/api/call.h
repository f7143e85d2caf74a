// A request on its way through a handler of an API: what came, whom to answer, its id and trace.
// The server makes it; a handler uses it on its own thread, no longer than its call lasts.
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
  // `headers` go with whatever answer is given: X-Request-Id and the like.
  Call(http::Exchange& exchange, metrics::Trace& trace, std::stop_token stop,
       http::Headers headers = {})
      : exchange_(exchange), trace_(trace), stop_(std::move(stop)), headers_(std::move(headers)) {}

  const http::Request& request() const noexcept { return exchange_.request(); }
  metrics::Trace& trace() noexcept { return trace_; }
  // Set when the client is gone.
  const std::stop_token& stop() const noexcept { return stop_; }

  // As Exchange's, with the headers. What take_body() gives should die with the statement that
  // decodes it, so that its memory is free while the answer is made.
  http::Body take_body() { return exchange_.take_body(); }
  size_t read_body(std::span<char> buffer) { return exchange_.read_body(buffer); }
  bool respond(http::Response response);
  bool begin_stream(int status, std::string_view content_type, std::string_view first = {});
  bool write(std::string_view bytes) { return reached(exchange_.write(bytes)); }
  bool finish(std::string_view last = {}) { return reached(exchange_.finish(last)); }

  // For the answer's head, before it begins.
  void add_header(std::string name, std::string value) {
    headers_.set(std::move(name), std::move(value));
  }
  // For metrics and the log: the model that it is about, as shown.
  void set_model(std::string name) { model_ = std::move(name); }
  const std::string& model() const noexcept { return model_; }
  int status() const noexcept { return status_; }  // 0: nothing was answered yet
  // The client has left before the end of a stream.
  bool is_cut_off() const noexcept { return is_cut_off_; }
  // The answer has begun, and fails: for metrics and the log.
  void fail(int status, std::string error) {
    status_ = status;
    error_ = std::move(error);
  }
  const std::string& error() const noexcept { return error_; }

 private:
  bool reached(bool is_there) noexcept {
    is_cut_off_ = is_cut_off_ || !is_there;
    return is_there;
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

// Has the answer's head tell what context the request was given and why, and what its prompt lost.
void report_sizing(Call& call, const Sizing& sizing);

// Notes in the trace and in a debug line that the request has fields that nobody here knows.
void report_unknown_fields(Call& call, const std::vector<std::string>& names);

// How long the head of a stream waits for the first token, so that another host may still be tried.
inline constexpr std::chrono::seconds kHeadTimeout{10};

using CallHandler = std::function<void(Call&)>;

// A row of an API's route table. What the handler throws becomes an answer in the API's form.
struct Route {
  std::vector<http::Method> methods{};
  std::string pattern{};
  CallHandler handler{};
  bool streams_body = false;
  std::optional<uint64_t> max_body_bytes{};
  bool writes_store = false;  // refused with 403 where the store is read-only
  bool is_traced = false;     // its traces are kept
  // Asked again and again by programs that watch: where nothing is wrong, answers are logged at
  // level debug.
  bool is_watched = false;
};

// `status` and the text of an error, as an API has them.
using ShapeError = http::Response (*)(int status, std::string_view text);

}  // namespace billow::api
