#include "scheduler/runner_client.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "http/lines.h"
#include "http/status.h"
#include "scheduler/runner_wire.h"

namespace billow::scheduler {
namespace {

// Max idle connections. More calls at the same time are rare, so that they can open new
// connections.
constexpr size_t kMaxKept = 32;
// Max length of a line. The last line has the ids of all generated tokens.
constexpr size_t kMaxLineBytes = size_t{64} << 20;

http::ClientOptions asker_options(std::chrono::milliseconds timeout) {
  http::ClientOptions options;
  options.connect_timeout = options.idle_timeout = timeout;
  return options;
}

http::ClientOptions client_options() {
  http::ClientOptions options;
  options.connect_timeout = std::chrono::seconds(30);
  // A long prompt may take long. Health requests detect a runner that does not respond.
  options.idle_timeout = std::chrono::hours(24);
  options.max_body_bytes = uint64_t{16} << 30;
  return options;
}

void check_status(int status, std::string_view body) {
  if (status != 200) throw http::StatusError(status, error_text(body));
}

}  // namespace

RunnerClient::RunnerClient(std::string socket_path, std::chrono::milliseconds answer_timeout)
    : socket_path_(std::move(socket_path)),
      asker_({.socket_path = socket_path_}, asker_options(answer_timeout)) {}

std::unique_ptr<http::Client> RunnerClient::take() {
  {
    const std::scoped_lock lock(mutex_);
    if (!kept_.empty()) {
      std::unique_ptr<http::Client> client = std::move(kept_.back());
      kept_.pop_back();
      return client;
    }
  }
  return std::make_unique<http::Client>(http::Endpoint{.socket_path = socket_path_},
                                        client_options());
}

void RunnerClient::give_back(std::unique_ptr<http::Client> client) {
  const std::scoped_lock lock(mutex_);
  if (kept_.size() < kMaxKept) kept_.push_back(std::move(client));
}

http::Response RunnerClient::send(const http::Call& call, const std::stop_token& stop) {
  if (stop.stop_requested()) throw Cancelled();
  std::unique_ptr<http::Client> client;
  http::Response response;
  try {
    client = take();
    const std::stop_callback cancels(stop, [&] { client->cancel(); });
    response = client->send(call);
  } catch (const Error& error) {
    if (stop.stop_requested()) throw Cancelled();
    throw RunnerGone(error.what());
  }
  if (!client->cancelled()) give_back(std::move(client));
  return response;
}

http::Response RunnerClient::post(std::string target, std::string body,
                                  const std::stop_token& stop) {
  http::Response response = send(
      {.method = http::Method::kPost, .target = std::move(target), .body = std::move(body)}, stop);
  check_status(response.status, response.body);
  return response;
}

CompletionEnd RunnerClient::complete(const Completion& request, const OnPiece& on_piece,
                                     std::stop_token stop) {
  http::LineSplitter lines(kMaxLineBytes);
  std::string refusal;
  std::optional<CompletionEnd> end;
  std::exception_ptr failure;  // stored, because the HTTP client would treat it as its own Error
  bool goes_on = true;
  const auto take_line = [&](std::string_view line) {
    if (!goes_on || end || line.empty()) return;
    CompletionLine parsed = parse_completion_line(line);
    if (parsed.is_end) {
      end = std::move(parsed.end);
    } else {
      goes_on = on_piece(std::move(parsed.piece));
    }
  };
  http::Call call = {
      .method = http::Method::kPost, .target = "/completion", .body = completion_body(request)};
  call.on_body = [&](const http::Response& head, std::string_view bytes) {
    try {
      if (stop.stop_requested()) throw Cancelled();
      if (head.status == 200) {
        lines.feed(bytes, take_line);
      } else {
        refusal += bytes.substr(0, kMaxLineBytes - std::min(kMaxLineBytes, refusal.size()));
      }
    } catch (...) {
      failure = std::current_exception();
    }
    return goes_on && !failure;
  };
  const http::Response response = send(call, stop);
  if (failure) std::rethrow_exception(failure);
  check_status(response.status, refusal);
  if (!goes_on) return {};
  if (!end) throw RunnerGone("the response ended early");
  return *std::move(end);
}

EmbedOutputs RunnerClient::embed(const EmbedJob& job, std::stop_token stop) {
  const http::Response response =
      send({.method = http::Method::kPost, .target = "/embed", .body = embed_body(job)}, stop);
  // A runner that shuts down also responds with 503, but without Retry-After.
  if (response.status == 503 && !response.headers.get("Retry-After").empty())
    throw RunnerBusy(error_text(response.body));
  check_status(response.status, response.body);
  return parse_vectors(response.body, job.inputs.size());
}

std::vector<Prefix> RunnerClient::prefixes(std::string_view root, size_t n_max) {
  return parse_prefixes(post("/prefixes", json_text({{"root", root}, {"max", n_max}})).body);
}

TextKv RunnerClient::do_with_text(TextAction action, const CachedText& text) {
  const Json body = {{"action", action == TextAction::kSave ? "save" : "forget"},
                     {"tokens", text.tokens},
                     {"adapters", text.adapters},
                     {"salt", text.salt}};
  return parse_text_kv(post("/text", json_text(body)).body);
}

http::Response RunnerClient::ask(const http::Call& call) {
  const std::scoped_lock lock(asking_);
  try {
    return asker_.send(call);
  } catch (const Error& error) {
    throw RunnerGone(error.what());
  }
}

RunnerHealth RunnerClient::health() {
  // The HTTP status repeats the text: it is 503 until the runner is ready.
  return parse_health(ask({.target = "/health"}).body);
}

void RunnerClient::set_budget(const Budget& budget) {
  Json body = {{"bytes", budget.bytes}, {"version", budget.version}};
  if (budget.ceiling != Budget::kNoCeiling) body["ceiling"] = budget.ceiling;
  const http::Response response =
      ask({.method = http::Method::kPost, .target = "/budget", .body = json_text(body)});
  check_status(response.status, response.body);
}

}  // namespace billow::scheduler
