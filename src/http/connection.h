// A connection of the server: reads requests, hands them to their handlers, writes the answers,
// and notices when the client goes. It owns its socket, and itself until that is closed.
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
  // Takes over the socket and serves it on the threads of `io`; without a ticket it is told that
  // there are too many. `service` and `io` outlive it.
  static std::shared_ptr<Connection> start(Service& service, boost::asio::io_context& io,
                                           Accepted accepted, BindKind bind,
                                           ConnectionTicket ticket);
  virtual ~Connection() = default;

  // Closes it, on the I/O thread, soon; its handler sees the client gone. Any thread may call.
  virtual void abort() = 0;
};

}  // namespace billow::http
