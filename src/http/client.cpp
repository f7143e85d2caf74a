#include "http/client.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "http/client_socket.h"
#include "http/parser.h"

namespace billow::http {
namespace {

constexpr size_t kPieceBytes = 64 << 10;

bool has_body(const Call& call) {
  return call.upload || !call.body.empty() || call.method == Method::kPost ||
         call.method == Method::kPut || call.method == Method::kPatch;
}

bool breaks_line(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos;
}

// A line break in a name or value could start a second request.
void append_field(std::string& text, std::string_view name, std::string_view value) {
  if (breaks_line(name) || breaks_line(value)) {
    throw Error(ErrorCode::kInvalidInput,
                "header field " + std::string(name.substr(0, name.find_first_of("\r\n"))) +
                    ": has a line break in it");
  }
  text.append(name).append(": ").append(value).append("\r\n");
}

std::string head_text(const Call& call, const Headers& common, const Endpoint& endpoint,
                      const std::string& name) {
  BILLOW_CHECK(call.method != Method::kOther);
  if (!call.target.starts_with('/') || call.target.find(' ') != std::string::npos ||
      breaks_line(call.target)) {
    throw Error(ErrorCode::kInvalidInput, "request target must be an encoded path: " + call.target);
  }
  std::string text;
  text.append(method_name(call.method)).append(" ").append(call.target).append(" HTTP/1.1\r\n");
  if (call.headers.find("Host") == nullptr) {
    append_field(text, "Host", endpoint.socket_path.empty() ? name : "localhost");
  }
  for (const Headers::Field& field : call.headers) append_field(text, field.name, field.value);
  for (const Headers::Field& field : common)
    if (call.headers.find(field.name) == nullptr) append_field(text, field.name, field.value);
  if (has_body(call)) {
    const uint64_t n_bytes = call.upload ? call.upload_bytes : call.body.size();
    append_field(text, "Content-Length", std::to_string(n_bytes));
  }
  return text += "\r\n";
}

}  // namespace

class Client::Conversation {
 public:
  Conversation(Endpoint endpoint, ClientOptions options)
      : endpoint_(endpoint), options_(options), socket_(std::move(endpoint)) {}

  Response send(const Call& call) {
    const std::string head = head_text(call, options_.headers, endpoint_, socket_.name());
    if (socket_.is_open() && socket_.is_stale()) socket_.close();
    const bool is_kept = socket_.is_open();
    try {
      std::optional<Response> response = try_send(call, head);
      if (!response && is_kept && !upload_began_) response = try_send(call, head);
      if (response) return *std::move(response);
    } catch (...) {
      socket_.close();
      throw;
    }
    throw Error(ErrorCode::kIo, socket_.name() + " closed the connection without a response");
  }

  ClientSocket& socket() { return socket_; }

 private:
  // Returns nullopt if the connection ended before the first byte of the response.
  std::optional<Response> try_send(const Call& call, const std::string& head) {
    if (!socket_.is_open()) socket_.connect(options_.connect_timeout);
    upload_began_ = false;
    const bool is_sent = send_request(call, head);
    std::optional<Response> response = receive(call);
    // The server would read the rest of this request as the next request.
    if (!is_sent || !response) socket_.close();
    return response;
  }

  // Returns false if the server accepts no more bytes. It may still have sent a response.
  bool send_request(const Call& call, const std::string& head) {
    if (!call.upload && call.body.size() <= kPieceBytes) return send_all(head + call.body);
    if (!send_all(head)) return false;
    if (!call.upload) return send_all(call.body);
    std::vector<char> buffer(kPieceBytes);
    for (uint64_t left = call.upload_bytes; left > 0;) {
      upload_began_ = true;
      const auto wanted = static_cast<size_t>(std::min<uint64_t>(left, buffer.size()));
      const size_t n = call.upload(std::span(buffer).first(wanted));
      if (n == 0 || n > wanted) {
        throw Error(ErrorCode::kIo, "the upload to " + socket_.name() + " ended " +
                                        std::to_string(left) + " bytes too early");
      }
      if (!send_all({buffer.data(), n})) return false;
      left -= n;
    }
    return true;
  }

  bool send_all(std::string_view bytes) {
    while (!bytes.empty()) {
      size_t n = 0;
      if (socket_.send(bytes, options_.idle_timeout, n) != ClientSocket::Result::kSome || n == 0) {
        return false;
      }
      bytes.remove_prefix(n);
    }
    return true;
  }

  std::optional<Response> receive(const Call& call) {
    std::string pending;  // received, not parsed
    bool has_bytes = false;
    for (;;) {
      ResponseParser parser(options_.max_header_bytes, call.method == Method::kHead);
      for (;;) {
        pending.erase(0, parser.put(pending));
        check(parser);
        if (parser.head_done()) break;
        if (receive_some(pending) != ClientSocket::Result::kSome) {
          if (!has_bytes) return std::nullopt;
          fail_early_end();
        }
        has_bytes = true;
      }
      // The final response follows an interim response such as 100 Continue.
      if (parser.head().status / 100 == 1) continue;
      return receive_body(call, parser, pending);
    }
  }

  Response receive_body(const Call& call, ResponseParser& parser, std::string& pending) {
    ResponseHead& head = parser.head();
    Response response{.status = head.status,
                      .content_type = std::string(head.headers.get("Content-Type")),
                      .headers = std::move(head.headers),
                      .body = {}};
    bool goes_on = true;
    while (goes_on && !parser.done()) {
      pending.erase(0, parser.put(pending));
      check(parser);
      goes_on = take(call, response, parser.take_body());
      if (!goes_on || parser.done()) break;
      const ClientSocket::Result result = receive_some(pending);
      if (result == ClientSocket::Result::kEnd) parser.put_eof();
      if (result == ClientSocket::Result::kFailed || parser.failure() != nullptr) fail_early_end();
    }
    if (!goes_on || !head.keep_alive || !pending.empty()) socket_.close();
    return response;
  }

  bool take(const Call& call, Response& response, const std::string& bytes) const {
    if (bytes.empty()) return true;
    if (call.on_body) return call.on_body(response, bytes);
    if (bytes.size() > options_.max_body_bytes - response.body.size()) {
      throw Error(ErrorCode::kTooLarge, "the response of " + socket_.name() + " has more than " +
                                            std::to_string(options_.max_body_bytes) + " bytes");
    }
    response.body += bytes;
    return true;
  }

  ClientSocket::Result receive_some(std::string& pending) {
    size_t n = 0;
    const ClientSocket::Result result = socket_.receive(buffer_, options_.idle_timeout, n);
    pending.append(buffer_.data(), n);
    return result;
  }

  void check(const ResponseParser& parser) const {
    const ParseFailure* failure = parser.failure();
    if (failure == nullptr) return;
    throw Error(ErrorCode::kIo, "the response of " + socket_.name() + ": " + failure->text);
  }

  [[noreturn]] void fail_early_end() const {
    throw Error(ErrorCode::kIo,
                socket_.name() + " closed the connection in the middle of its response");
  }

  const Endpoint endpoint_;
  const ClientOptions options_;
  ClientSocket socket_;
  std::vector<char> buffer_ = std::vector<char>(kPieceBytes);
  bool upload_began_ = false;
};

Client::Client(Endpoint endpoint, ClientOptions options)
    : conversation_(std::make_unique<Conversation>(std::move(endpoint), options)) {}
Client::~Client() = default;

Response Client::send(const Call& call) { return conversation_->send(call); }
void Client::cancel() noexcept { conversation_->socket().cancel(); }
bool Client::cancelled() const noexcept { return conversation_->socket().cancelled(); }

}  // namespace billow::http
