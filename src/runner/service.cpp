#include "runner/service.h"

#include <unistd.h>

#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "engine/memory_json.h"
#include "runner/protocol.h"

namespace billow::runner {
namespace {

using http::Exchange;
using http::Method;

http::Response json_response(int status, const Json& json) {
  return {.status = status,
          .content_type = "application/json",
          .headers = {},
          .body = json.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

Json parse_object(const std::string& body) {
  Json json = Json::parse(body, nullptr, false);
  if (!json.is_object()) throw Error(ErrorCode::kInvalidInput, "the body must be a JSON object");
  return json;
}

template <class T>
T field(const Json& json, const char* name, const char* wanted) {
  try {
    return json.at(name).get<T>();
  } catch (const Json::exception&) {
    throw Error(ErrorCode::kInvalidInput, std::string("field \"") + name + "\" must be " + wanted);
  }
}

const char* what(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  }
}

}  // namespace

Service::Service(std::string path, engine::EngineOptions engine, LoopOptions loop) {
  loader_ = std::thread([this, path = std::move(path), engine, loop] {
    std::unique_ptr<EngineLoop> made;
    std::exception_ptr error;
    try {
      made = std::make_unique<EngineLoop>(std::make_unique<engine::Engine>(path, engine), loop);
    } catch (...) {
      error = std::current_exception();
    }
    const std::scoped_lock lock(mutex_);
    loop_ = std::move(made);
    error_ = error;
    changed_.notify_all();
  });
}

Service::~Service() { loader_.join(); }

void Service::wait_until_loaded() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return loop_ || error_; });
  if (error_) std::rethrow_exception(error_);
}

// Throws Error where the model is not loaded, or was not to be.
EngineLoop& Service::ready() {
  const std::scoped_lock lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  if (!loop_) throw Error(ErrorCode::kUnsupported, "the model is being loaded");
  return *loop_;
}

std::vector<http::Route> Service::routes() {
  std::vector<http::Route> routes;
  const auto add = [&](Method method, const char* pattern, void (Service::*handler)(Exchange&)) {
    http::Route& route = routes.emplace_back();
    route.methods = {method};
    route.pattern = pattern;
    route.handler = [this, handler](Exchange& exchange) { (this->*handler)(exchange); };
  };
  add(Method::kGet, "/health", &Service::health);
  add(Method::kPost, "/completion", &Service::complete);
  add(Method::kPost, "/tokenize", &Service::tokenize);
  add(Method::kPost, "/detokenize", &Service::detokenize);
  add(Method::kPost, "/budget", &Service::set_budget);
  return routes;
}

void Service::health(Exchange& exchange) {
  Json out = {{"status", "loading"}, {"pid", ::getpid()}};
  const EngineLoop* loop = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    loop = loop_.get();
    if (error_) {
      out["status"] = "failed";
      out["error"] = utf8::sanitized(what(error_));
    }
  }
  if (loop != nullptr) {
    const LoopState state = loop->state();
    out["status"] = loop->broken() ? "failed" : "ready";
    out["running"] = state.n_running;
    out["waiting"] = state.n_waiting;
    out["max_context"] = loop->max_context();
    out["memory"] = memory_json(state.memory);
  }
  exchange.respond(json_response(out["status"] == "ready" ? 200 : 503, out));
}

void Service::complete(Exchange& exchange) {
  EngineLoop& loop = ready();
  AnswerRequest request = parse_completion(exchange.request().body);
  const context::OverflowPolicy policy = request.options.context.policy;
  const std::shared_ptr<Answer> answer = loop.submit(std::move(request));
  exchange.on_client_gone([answer] { answer->cancel(); });
  std::optional<Piece> piece = answer->next();  // throws before anything is sent
  if (!exchange.begin_stream(200, "application/x-ndjson")) answer->cancel();
  try {
    for (; piece; piece = answer->next())
      if (!exchange.write(piece_line(*piece, policy, loop.tokenizer()))) answer->cancel();
    exchange.write(end_line(answer->end()));
  } catch (const std::exception& error) {  // of the engine: the stream ends with it
    exchange.write(error_line(error.what()));
  }
  exchange.finish();
}

void Service::tokenize(Exchange& exchange) {
  const Json json = parse_object(exchange.request().body);
  const auto text = field<std::string>(json, "content", "a string");
  const std::vector<int32_t> tokens =
      ready().tokenizer().encode(text, {.add_special = json.value("add_special", true),
                                        .parse_special = json.value("parse_special", true)});
  exchange.respond(json_response(200, {{"tokens", tokens}}));
}

void Service::detokenize(Exchange& exchange) {
  const Json json = parse_object(exchange.request().body);
  const auto tokens = field<std::vector<int32_t>>(json, "tokens", "an array of token ids");
  exchange.respond(
      json_response(200, {{"content", utf8::sanitized(ready().tokenizer().decode(tokens))}}));
}

void Service::set_budget(Exchange& exchange) {
  const Json json = parse_object(exchange.request().body);
  ready().set_memory_budget(field<uint64_t>(json, "bytes", "a number of bytes"));
  exchange.respond(json_response(200, Json::object()));
}

}  // namespace billow::runner
