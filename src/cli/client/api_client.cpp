#include "cli/client/api_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "cli/api_key.h"
#include "cli/client/show_text.h"
#include "http/lines.h"

namespace billow::cli {
namespace {

constexpr size_t kMaxLineBytes = 16 << 20;
constexpr auto kTimeout = std::chrono::hours(24);  // loading a large model can take long
constexpr const char* kJson = "application/json";

http::Endpoint tcp(const scheduler::Endpoint& endpoint) {
  return {.host = endpoint.host, .port = endpoint.port};
}

http::ClientOptions client_options() {
  http::ClientOptions options;
  options.idle_timeout = kTimeout;
  options.headers = key_headers();
  return options;
}

std::string with_status(int status, const std::string& message) {
  const std::string line = fmt::format("{} {}", status, http::reason_phrase(status));
  return message.empty() ? line : line + ": " + message;
}

}  // namespace

std::string said_by(const std::string& body) {
  const Json json = Json::parse(body, nullptr, false);
  if (!json.is_object()) return body;
  std::string message = text_field(json, "error");
  if (!message.empty() || !json.contains("error")) return message;
  return text_field(json["error"], "message");
}

namespace {

Json parse_answer(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) {
    throw Error(
        ErrorCode::kInvalidInput,
        "the server's response is not JSON; is the program at this address a billow server?");
  }
  return json;
}

// Splits the response of a call into JSON objects.
class ObjectReader {
 public:
  explicit ObjectReader(std::function<bool(const Json&)> on_object)
      : on_object_(std::move(on_object)) {}

  bool take(const http::Response& head, std::string_view piece) {
    if (head.status >= 400) {
      refusal_ += piece.substr(0, kMaxLineBytes - std::min(kMaxLineBytes, refusal_.size()));
    } else {
      lines_.feed(piece, [this](std::string_view line) { take_line(line); });
    }
    return wants_more_;
  }

  void finish(const http::Response& head) {
    if (head.status >= 400) throw ApiError(head.status, said_by(refusal_), true);
    if (wants_more_) lines_.finish([this](std::string_view line) { take_line(line); });
  }

 private:
  void take_line(std::string_view line) {
    if (line.empty() || !wants_more_) return;
    const Json object = parse_answer(line);
    if (object.is_object() && object.contains("error")) {
      const std::string message = text_field(object, "error");
      throw ApiError(500, message.empty() ? object["error"].dump() : message, false);
    }
    wants_more_ = on_object_(object);
  }

  std::function<bool(const Json&)> on_object_;
  http::LineSplitter lines_{kMaxLineBytes};
  std::string refusal_;
  bool wants_more_ = true;
};

}  // namespace

ApiError::ApiError(int status, std::string message, bool is_stream)
    : std::runtime_error(is_stream || message.empty() ? with_status(status, message) : message),
      status_(status),
      said_(std::move(message)) {}

ApiClient::ApiClient(const scheduler::Endpoint& endpoint) : endpoint_(endpoint) {
  if (endpoint.scheme != "http") {
    throw Error(ErrorCode::kUnsupported,
                endpoint.url() + ": this client does not support " + endpoint.scheme +
                    "; set OLLAMA_HOST to an http:// address, for example that of a local proxy");
  }
  client_ = std::make_unique<http::Client>(tcp(endpoint), client_options());
}

ApiClient::~ApiClient() = default;

http::Call ApiClient::call(http::Method method, const std::string& path, const char* accept) const {
  http::Call call{.method = method,
                  .target = (endpoint_.path.empty() ? "" : "/" + endpoint_.path) + path};
  call.headers = {{"User-Agent", "billow/" BILLOW_VERSION}, {"Accept", accept}};
  return call;
}

Json ApiClient::answer(const http::Call& call) {
  const http::Response response = client_->send(call);
  if (response.status >= 400) throw ApiError(response.status, said_by(response.body), false);
  return response.body.empty() ? Json() : parse_answer(response.body);
}

void ApiClient::check_server() {
  try {
    client_->send(call(http::Method::kHead, "/", kJson));
  } catch (const Error& error) {
    if (std::string_view(error.what()).find("refused") == std::string_view::npos) throw;
    throw Error(ErrorCode::kIo,
                "could not connect to billow server, run 'billow serve' to start it");
  }
}

Json ApiClient::get(const std::string& path) {
  return answer(call(http::Method::kGet, path, kJson));
}

Json ApiClient::post(const std::string& path, const Json& body) {
  http::Call request = call(http::Method::kPost, path, kJson);
  request.headers.set("Content-Type", kJson);
  request.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  return answer(request);
}

Json ApiClient::remove(const std::string& path, const Json& body) {
  http::Call request = call(http::Method::kDelete, path, kJson);
  request.headers.set("Content-Type", kJson);
  request.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  return answer(request);
}

http::Response ApiClient::exchange(const std::string& path, std::string body,
                                   const http::Headers& headers) {
  http::Call request = call(http::Method::kPost, path, kJson);
  request.headers.set("Content-Type", kJson);
  for (const http::Headers::Field& field : headers) request.headers.set(field.name, field.value);
  request.body = std::move(body);
  return client_->send(request);
}

void ApiClient::abandon() noexcept { client_->cancel(); }

bool ApiClient::has(const std::string& path) {
  const http::Response response = client_->send(call(http::Method::kHead, path, kJson));
  if (response.status < 400) return true;
  if (response.status == 404) return false;
  // A response to HEAD has no text, but that to the upload names the reason.
  const http::Response refusal = exchange(path, "", {});
  throw ApiError(response.status, refusal.status == response.status ? said_by(refusal.body) : "",
                 false);
}

void ApiClient::upload(const std::string& path, uint64_t n_bytes,
                       const std::function<size_t(std::span<char>)>& read) {
  http::Call request = call(http::Method::kPost, path, kJson);
  request.headers.set("Content-Type", "application/octet-stream");
  request.upload = read;
  request.upload_bytes = n_bytes;
  answer(request);
}

std::shared_ptr<http::Client> ApiClient::begin_stream() {
  const std::lock_guard lock(mutex_);
  streaming_ = std::make_shared<http::Client>(tcp(endpoint_), client_options());
  if (is_cancelled_) streaming_->cancel();
  return streaming_;
}

void ApiClient::end_stream() {
  const std::lock_guard lock(mutex_);
  streaming_.reset();
  is_cancelled_ = false;
}

bool ApiClient::stream(const std::string& path, const Json& body,
                       const std::function<bool(const Json&)>& on_object) {
  http::Call request = call(http::Method::kPost, path, "application/x-ndjson");
  request.headers.set("Content-Type", kJson);
  request.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  ObjectReader reader(on_object);
  request.on_body = [&reader](const http::Response& head, std::string_view piece) {
    return reader.take(head, piece);
  };
  // Each stream has its own http::Client, because a cancelled client cannot be used again.
  const std::shared_ptr<http::Client> client = begin_stream();
  const std::unique_ptr<ApiClient, void (*)(ApiClient*)> ended(
      this, [](ApiClient* self) { self->end_stream(); });
  try {
    reader.finish(client->send(request));
  } catch (const Error&) {
    if (!client->cancelled()) throw;
    return false;
  }
  return true;
}

void ApiClient::forget_cancel() noexcept {
  const std::lock_guard lock(mutex_);
  is_cancelled_ = false;
}

void ApiClient::cancel() noexcept {
  const std::lock_guard lock(mutex_);
  is_cancelled_ = true;
  if (streaming_) streaming_->cancel();
}

}  // namespace billow::cli
