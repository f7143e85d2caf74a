// A blocking HTTP/1.1 client for one server, by TCP or a Unix socket, without TLS. It owns its
// connection and keeps it for the next call. One thread at a time sends; cancel() may come from any
// thread.
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
  std::string host{};  // a name or an address, with `port`
  uint16_t port = 0;
  std::string socket_path{};  // a Unix socket instead, if not empty
};

struct ClientOptions {
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds idle_timeout{600'000};  // without a byte going or coming
  uint32_t max_header_bytes = 64 << 10;
  uint64_t max_body_bytes = 1ull << 30;  // of an answer that is collected
};

struct Call {
  Method method = Method::kGet;
  std::string target = "/";  // path and query, percent-encoded
  Headers headers{};         // beside Host and framing
  std::string body{};
  // Gives the body piece by piece in place of `body`: fills the buffer and returns how many bytes,
  // `upload_bytes` in all.
  std::function<size_t(std::span<char> buffer)> upload{};
  uint64_t upload_bytes = 0;
  // Takes the body of the answer as it comes, in place of Response::body; false ends the call
  // there. `head` has the status and the header fields.
  std::function<bool(const Response& head, std::string_view piece)> on_body{};
};

class Client {
 public:
  explicit Client(Endpoint endpoint, ClientOptions options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Sends and waits for the answer, whatever its status. A call that finds the kept connection
  // closed before it got a byte of the answer is sent once more on a new one, unless its upload has
  // begun. Throws Error when there is no connection, when it ends before the answer does, for an
  // answer that is malformed or too large, when nothing moves for idle_timeout, and when cancelled;
  // lets through what the functions of `call` throw.
  Response send(const Call& call);

  // Ends the running call promptly with an Error, and every later one: a cancelled client is done
  // with.
  void cancel() noexcept;
  bool cancelled() const noexcept;

 private:
  class Conversation;
  std::unique_ptr<Conversation> conversation_;
};

}  // namespace billow::http
