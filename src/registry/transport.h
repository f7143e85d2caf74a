// Sends HTTP and HTTPS requests to other servers with libcurl. TLS uses the system's certificates.
// Proxies come from the environment (http_proxy, https_proxy, no_proxy). HTTP/2 is used if the
// server supports it. Connections are kept and all requests share them. Redirects are not followed:
// the caller decides which host may get which data.
//
// A Transport owns a thread that does the I/O of all requests. send() is thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "http/message.h"

namespace billow::registry {

struct Reply {
  int status = 0;
  http::Headers headers;
  std::string body;  // empty if `on_body` received it
};

struct Request {
  std::string method = "GET";
  std::string url;  // http or https
  http::Headers headers{};
  std::string body{};
  // Supplies the body piece by piece instead of `body`. Fills the buffer and returns the number of
  // bytes, `upload_bytes` in total. Runs on the Transport's thread; must not block. If it throws,
  // the request ends.
  std::function<size_t(std::span<char> buffer)> upload{};
  uint64_t upload_bytes = 0;
  // Receives the body of the reply in pieces as they arrive; `head` has the status and the fields.
  // If it returns false, the request ends and send() returns. Runs on the Transport's thread; must
  // not block. If it throws, the request ends and send() throws the exception.
  std::function<bool(const Reply& head, std::string_view bytes)> on_body{};
  uint64_t max_body_bytes = uint64_t{8} << 20;  // of a reply without `on_body`
  // Replaces a shorter stall_timeout once the whole request has been sent, because a server may
  // work for long before it replies.
  std::chrono::milliseconds reply_timeout{0};
};

struct TransportOptions {
  std::string user_agent = "billow";
  std::chrono::milliseconds connect_timeout{30'000};
  // A request fails if no byte is sent or received for this long.
  std::chrono::milliseconds stall_timeout{30'000};
  // A PEM file of trusted certificates, in addition to or instead of the system's certificates.
  std::string ca_file{};
  // Connects only to public addresses (http/public_address.h), and to no proxy, because a proxy
  // could connect to any address.
  bool only_public_addresses = false;
};

class Transport {
 public:
  // Throws Error if libcurl cannot start.
  explicit Transport(TransportOptions options = {});
  // Ends all running requests: their send() throws.
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Sends a request and returns the reply, whatever its status. Throws Error: kIo, with the host
  // and the reason, if the reply is incomplete or `stop` is set; kInvalidInput if the URL or a
  // field cannot be sent; kPermissionDenied if the address is not public and must be; kTooLarge if
  // the reply exceeds max_body_bytes or its fields exceed 256 KiB.
  Reply send(const Request& request, std::stop_token stop = {});

 private:
  class Loop;
  std::shared_ptr<Loop> loop_;  // each running send() also owns it
};

}  // namespace billow::registry
