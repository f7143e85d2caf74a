// For tests: a call without a connection that records its answer, and a generator and an embedder
// that run a script. Not thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "api/call.h"
#include "api/embedder.h"
#include "api/generator.h"
#include "api/openai/text_answer.h"

namespace billow::api::openai {

class RecordedExchange : public http::Exchange {
 public:
  explicit RecordedExchange(http::Request request) : request_(std::move(request)) {}

  const http::Request& request() const noexcept override { return request_; }
  http::Body take_body() override { return {.text = std::exchange(request_.body, {})}; }
  size_t read_body(std::span<char>) override { return 0; }
  bool respond(http::Response response) override {
    if (has_begun) throw std::logic_error("answered twice");
    has_begun = is_finished = true;
    status = response.status;
    content_type = response.content_type;
    headers = std::move(response.headers);
    writes.push_back(std::move(response.body));
    return !client_gone();
  }
  bool begin_stream(int with_status, std::string_view type, http::Headers with,
                    std::string_view first) override {
    if (has_begun) throw std::logic_error("answered twice");
    has_begun = true;
    status = with_status;
    content_type = type;
    headers = std::move(with);
    return first.empty() ? !client_gone() : write(first);
  }
  bool write(std::string_view bytes) override {
    if (!has_begun || is_finished) throw std::logic_error("write() outside of a stream");
    if (client_gone()) return false;
    writes.emplace_back(bytes);
    return true;
  }
  bool finish(std::string_view last) override {
    if (!has_begun || is_finished) throw std::logic_error("finish() without a stream");
    if (!last.empty()) write(last);
    is_finished = true;
    return !client_gone();
  }
  bool client_gone() const noexcept override { return writes.size() >= n_writes_until_gone; }
  void on_client_gone(std::function<void()>) override {}

  std::string body() const {
    std::string all;
    for (const std::string& bytes : writes) all += bytes;
    return all;
  }

  size_t n_writes_until_gone = SIZE_MAX;
  bool has_begun = false;
  bool is_finished = false;
  int status = 0;
  std::string content_type;
  http::Headers headers;
  std::vector<std::string> writes;

 private:
  http::Request request_;
};

inline http::Request request_with(std::string body) {
  http::Request request;
  request.body = std::move(body);
  return request;
}

struct TestCall {
  explicit TestCall(http::Request request = {}) : exchange(std::move(request)) {}
  explicit TestCall(std::string body) : TestCall(request_with(std::move(body))) {}

  RecordedExchange exchange;
  metrics::Trace trace{"id", "/v1", ""};
  std::stop_source stop;
  Call call{exchange, trace, stop.get_token()};
};

inline Delta text_delta(std::string text) {
  return {.events = {{EventKind::kText, 0, std::move(text)}}};
}
inline Delta thinking_delta(std::string text) {
  return {.events = {{EventKind::kThinking, 0, std::move(text)}}};
}
// Returns a whole call with the id "call_INDEX".
inline Delta call_delta(size_t index, const char* name) {
  return {.events = {{EventKind::kCallBegin, index, name, "call_" + std::to_string(index)},
                     {EventKind::kCallArguments, index, R"({"a")"},
                     {EventKind::kCallArguments, index, ":1}"},
                     {EventKind::kCallEnd, index}}};
}
// Returns the events of both deltas.
inline Delta joined(Delta first, const Delta& second) {
  first.events.insert(first.events.end(), second.events.begin(), second.events.end());
  return first;
}

// A clock that advances only when a test changes `time`.
struct TestClock {
  SteadyNow now() {
    return [this] { return time; };
  }
  metrics::Clock::time_point time{};
};

// Runs `script`. Several choices of one request may run in parallel.
class ScriptedGenerator : public Generator {
 public:
  void run(const GenerationRequest& given, Sink& sink, std::stop_token, metrics::Trace&) override {
    {
      const std::scoped_lock lock(mutex_);
      request = given;
    }
    script(sink);
  }

  GenerationRequest request;  // the latest request
  std::function<void(Sink& sink)> script = [](Sink&) {};

 private:
  std::mutex mutex_;
};

class ScriptedEmbedder : public Embedder {
 public:
  EmbedReply embed(const EmbedRequest& given, std::stop_token, metrics::Trace&) override {
    request = given;
    return script();
  }

  EmbedRequest request;
  std::function<EmbedReply()> script = [] { return EmbedReply{}; };
};

}  // namespace billow::api::openai
