// A blocking HTTP/1.1 client for one server, over TCP or a Unix socket, without TLS. It owns its
// connection and keeps it open for the next call. One thread at a time may send; cancel() is
// thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "http/message.h"

namespace billow::http {

struct Endpoint {
  std::string host{};  // a name or an address; used with `port`
  uint16_t port = 0;
  std::string socket_path{};  // if not empty, a Unix socket instead of TCP
};

struct ClientOptions {
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds idle_timeout{600'000};  // without a byte sent or received
  uint32_t max_header_bytes = 64 << 10;
  uint64_t max_body_bytes = 1ull << 30;  // of a response that is collected in memory
  Headers headers{};                     // of every call that has none of that name
};

struct Call {
  Method method = Method::kGet;
  std::string target = "/";  // path and query, percent-encoded
  Headers headers{};         // in addition to Host and framing fields
  std::string body{};
  // Supplies the body piece by piece instead of `body`. Fills the buffer and returns the number of
  // bytes, `upload_bytes` in total.
  std::function<size_t(std::span<char> buffer)> upload{};
  uint64_t upload_bytes = 0;
  // Receives the response body in pieces as they arrive, instead of Response::body. `head` has the
  // status and the header fields. If it returns false, the call ends there.
  std::function<bool(const Response& head, std::string_view piece)> on_body{};
};

class Client {
 public:
  explicit Client(Endpoint endpoint, ClientOptions options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Sends a request and returns the response, whatever its status. If the server closed the kept
  // connection before its first byte, the request is sent once more on a new connection. An upload
  // that has begun is not sent again. Throws Error if it cannot connect, the connection ends early,
  // or the response is malformed or too large. Throws Error after idle_timeout without progress and
  // if the client is cancelled. Exceptions from the functions of `call` pass through.
  Response send(const Call& call);

  // Ends the running call promptly with an Error. Later calls fail, too: a cancelled client is
  // unusable.
  void cancel() noexcept;
  bool cancelled() const noexcept;

 private:
  class Conversation;
  std::unique_ptr<Conversation> conversation_;
};

}  // namespace billow::http
