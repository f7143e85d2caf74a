// HTTP and HTTPS requests to other servers, over libcurl: TLS with the system's certificates,
// proxies from the environment (http_proxy, https_proxy, no_proxy), HTTP/2 where the server has it.
// Connections are kept and shared by all requests. Redirects are not followed: who asks decides
// which host may see what.
//
// A Transport owns a thread that does the I/O of all requests. Any thread may call send().
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
  std::string body;  // empty where `on_body` took it
};

struct Request {
  std::string method = "GET";
  std::string url;  // http or https
  http::Headers headers{};
  std::string body{};
  // Gives the body piece by piece in place of `body`: fills the buffer and returns how many bytes,
  // `upload_bytes` in all. On the Transport's thread; must not block. What it throws ends the
  // request.
  std::function<size_t(std::span<char> buffer)> upload{};
  uint64_t upload_bytes = 0;
  // Takes the body of the answer as it comes; `head` has the status and the fields. False ends the
  // request there, and send() returns. On the Transport's thread; must not block. What it throws
  // ends the request and comes out of send().
  std::function<bool(const Reply& head, std::string_view bytes)> on_body{};
  uint64_t max_body_bytes = uint64_t{8} << 20;  // of an answer without `on_body`
};

struct TransportOptions {
  std::string user_agent = "billow";
  std::chrono::milliseconds connect_timeout{30'000};
  // A request without a byte going or coming for so long fails.
  std::chrono::milliseconds stall_timeout{30'000};
  // Certificates that are trusted beside or in place of the system's: a file in PEM form.
  std::string ca_file{};
};

class Transport {
 public:
  // Throws Error where libcurl cannot begin.
  explicit Transport(TransportOptions options = {});
  // Ends all requests that run: their send() throws.
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Sends and waits for the answer, whatever its status. Throws Error (kIo) that names the host and
  // the reason where no whole answer comes, also once `stop` is set; kInvalidInput for a URL or a
  // field that cannot be sent; kTooLarge for an answer beyond max_body_bytes, or with
  // fields of more than 256 KiB.
  Reply send(const Request& request, std::stop_token stop = {});

 private:
  class Loop;
  std::shared_ptr<Loop> loop_;  // also of each send() that runs
};

}  // namespace billow::registry
