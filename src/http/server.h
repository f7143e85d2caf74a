// An HTTP/1.1 server on TCP and Unix sockets. One thread at a time does the sockets' I/O. A
// request's handler runs as blocking code on the thread that has read the request, and another
// thread goes on with the I/O, from a pool that grows with the load. The Server owns all threads,
// connections and handlers. Any thread but a handler's may call it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/access.h"
#include "http/exchange.h"
#include "http/message.h"

namespace billow::http {

struct Route {
  std::vector<Method> methods{};
  std::string pattern{};  // as in router.h
  Handler handler{};
  bool streams_body = false;  // the handler reads the body; else it is in Request::body
  // In place of ServerOptions::max_body_bytes. A streamed body has no bound without it.
  std::optional<uint64_t> max_body_bytes{};
};

// An answer that no handler gave: the request was refused, or could not be read, or nobody has its
// path. Views are good during the call.
struct UnhandledAnswer {
  const Request& request;    // as far as it was read
  std::string_view route{};  // the pattern of the route that it was for; empty: none, or not known
  int status = 0;            // 499: nobody is left to answer
  std::string_view why{};    // empty where nothing is wrong
  std::chrono::nanoseconds time{};  // since the request's first byte
};

struct ServerOptions {
  std::string host;         // to listen on by TCP: a name or an address; not by TCP if empty
  uint16_t port = 0;        // 0: one that is free
  std::string socket_path;  // to listen on as a Unix socket for this user only; not if empty

  size_t max_connections = 1024;  // more are answered 503 and closed; also bounds the threads
  uint32_t max_header_bytes = 64 << 10;
  uint64_t max_body_bytes = 256 << 20;  // of requests whose body is not streamed
  // Of all bodies that are being read or decoded, but for the first 64 KiB of each; 0: twice
  // max_body_bytes. A request that would pass it is answered 503.
  uint64_t max_bodies_bytes = 0;
  size_t max_unsent_bytes = 1 << 20;  // of an answer; more, and Exchange::write waits
  size_t max_unread_bytes = 1 << 20;  // of a streamed body; more, and the client waits

  std::chrono::milliseconds idle_timeout{120'000};        // of a connection between two requests
  std::chrono::milliseconds header_timeout{10'000};       // from a header's first byte to its last
  std::chrono::milliseconds body_timeout{300'000};        // for a whole body that is not streamed
  std::chrono::milliseconds body_idle_timeout{60'000};    // without a byte of a body
  std::chrono::milliseconds slow_reader_timeout{60'000};  // without taking a byte of the answer

  // Called once for each answer that no handler gave, before it goes out, on the I/O thread.
  // Returns header fields for the answer. Must not throw, block or call the server.
  std::function<Headers(const UnhandledAnswer&)> on_unhandled;

  // Asked before anything else about each request, on the I/O thread: may answer it, or add header
  // fields to whatever answer it gets. See check_access().
  std::function<Verdict(const Request& request, BindKind bind)> admit;

  // Makes the answer to a request that fails before or in its handler, on any thread: 400, 403,
  // 404, 405, 408, 413, 431, 500, 503 and what Errors become (status_of). `path` is empty where the
  // request could not be read so far. Plain text if none is given.
  std::function<Response(int status, std::string_view path, std::string_view text)> shape_error;
};

class Server {
 public:
  // Listens and serves from here on. Throws Error when that is not possible, or for a malformed
  // route.
  Server(ServerOptions options, std::vector<Route> routes);
  ~Server();  // stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const noexcept;  // 0 without TCP

  // Accepts nothing more, answers requests on open connections with 503, and waits until the active
  // ones have been answered, at most so long; then stop(). Returns whether all were answered.
  bool drain(std::chrono::milliseconds timeout);

  // Closes everything at once. Handlers see their clients gone; returns when all have returned.
  void stop();

  size_t n_connections() const noexcept;      // open ones
  size_t n_active_requests() const noexcept;  // read, and not answered to the end

 private:
  class Transport;
  std::unique_ptr<Transport> transport_;
};

}  // namespace billow::http
