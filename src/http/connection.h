// A connection of the server. It reads requests, passes them to handlers, writes responses, and
// notices when the client disconnects. It owns its socket, and keeps itself alive until the socket
// is closed.
#pragma once

#include <memory>

#include "http/access.h"
#include "http/listener.h"
#include "http/service.h"

namespace boost::asio {
class io_context;  // NOLINT(readability-identifier-naming): a name of Boost
}

namespace billow::http {

class Connection {
 public:
  // Takes ownership of the socket and serves it on the threads of `io`. Without a ticket, the
  // client gets an error: too many connections. `service` and `io` must outlive the connection.
  static std::shared_ptr<Connection> start(Service& service, boost::asio::io_context& io,
                                           Accepted accepted, BindKind bind,
                                           ConnectionTicket ticket);
  virtual ~Connection() = default;

  // Asks the I/O thread to cancel the current request soon. Its handler can still respond, and the
  // connection closes after the response. Thread-safe.
  virtual void cancel() = 0;
  // Asks the I/O thread to close the connection soon. The handler then sees that the client is
  // gone. Thread-safe.
  virtual void abort() = 0;
};

}  // namespace billow::http
