// An HTTP/1.1 server on TCP and Unix sockets. One thread at a time does the I/O of all sockets. The
// thread that has read a request also runs its handler as blocking code. Another thread then
// continues the I/O, from a pool that grows with the load. The Server owns all threads, connections
// and handlers. Thread-safe, except that handlers must not call it.
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
  std::string pattern{};  // see router.h
  Handler handler{};
  bool streams_body = false;  // the handler reads the body; if false, the body is in Request::body
  // Replaces ServerOptions::max_body_bytes. Without it, a streamed body has no limit.
  std::optional<uint64_t> max_body_bytes{};
};

// A response that the server sends without a handler. The request was refused, cannot be parsed, or
// has no route. Views are valid during the call.
struct UnhandledAnswer {
  const Request& request;           // the parts that were read
  std::string_view route{};         // the pattern of the request's route; empty: none, or unknown
  int status = 0;                   // 499: the client has disconnected
  std::string_view why{};           // empty if nothing is wrong
  std::chrono::nanoseconds time{};  // since the request's first byte
};

struct ServerOptions {
  std::string host;             // name or address to listen on by TCP; empty: no TCP
  uint16_t port = 0;            // 0: a free port
  std::string socket_path;      // Unix socket to listen on; empty: no Unix socket
  unsigned socket_mode = 0600;  // permissions of the socket's file

  size_t max_connections = 1024;  // more get status 503 and are closed; also limits the threads
  uint32_t max_header_bytes = 64 << 10;
  uint64_t max_body_bytes = 256 << 20;  // for bodies that are not streamed
  // The max memory of all bodies that are being read or decoded. The first 64 KiB of each body do
  // not count. 0: twice max_body_bytes. A request that would exceed the limit gets status 503.
  uint64_t max_bodies_bytes = 0;
  size_t max_unsent_bytes = 1 << 20;  // of a response; beyond it, Exchange::write waits
  size_t max_unread_bytes = 1 << 20;  // of a streamed body; beyond it, the client waits

  std::chrono::milliseconds idle_timeout{120'000};      // of a connection, between two requests
  std::chrono::milliseconds header_timeout{10'000};     // from a header's first byte to its last
  std::chrono::milliseconds body_timeout{300'000};      // for a whole body that is not streamed
  std::chrono::milliseconds body_idle_timeout{60'000};  // without a byte of the body
  std::chrono::milliseconds slow_reader_timeout{
      60'000};  // without the client taking a byte of the response

  // Runs once for each response without a handler, on the I/O thread, before the response is sent.
  // Returns header fields for the response. Must not throw, block or call the server.
  std::function<Headers(const UnhandledAnswer&)> on_unhandled;

  // Runs first for each request, on the I/O thread, before the body is read. `route` is the pattern
  // of the request's route; empty if it has none. The function may answer or refuse the request, or
  // add header fields to any response. See check_access().
  std::function<Verdict(const Request& request, BindKind bind, std::string_view route)> admit;

  // Makes the response to a request that fails before or in its handler, on any thread: 400, 403,
  // 404, 405, 408, 413, 431, 500, 503 and the statuses of Errors (status_of). `path` is empty if
  // the path was not read. Without this function, errors are plain text.
  std::function<Response(int status, std::string_view path, std::string_view text)> shape_error;
};

class Server {
 public:
  // Starts to listen and serve. Throws Error if it cannot, or for a malformed route.
  Server(ServerOptions options, std::vector<Route> routes);
  ~Server();  // stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const noexcept;  // 0 without TCP

  // Stops accepting connections, answers new requests on open connections with 503, and waits for
  // active requests for at most `timeout`. Cancels the requests that are still active (see
  // Exchange::on_client_gone), and waits for their responses for at most `cancel_time`. Then calls
  // stop(). Returns whether all active requests were answered within `timeout`.
  bool drain(std::chrono::milliseconds timeout,
             std::chrono::milliseconds cancel_time = std::chrono::milliseconds(0));

  // Closes all connections immediately. Handlers see that their clients are gone. Returns when all
  // handlers have returned.
  void stop();

  size_t n_connections() const noexcept;      // open connections
  size_t n_active_requests() const noexcept;  // read, but not completely answered

 private:
  class Transport;
  std::unique_ptr<Transport> transport_;
};

}  // namespace billow::http
