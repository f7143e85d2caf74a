// One request and its response, as the handler of a route sees them. Handlers are sequential code
// that may block. The server owns the Exchange. A handler uses the Exchange only on its own thread
// and until it returns; only client_gone() is thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "http/body_budget.h"
#include "http/message.h"

namespace billow::http {

class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const Request& request() const noexcept = 0;

  // Returns the body on a route that does not stream it; later calls return an empty body. The
  // memory of all bodies together is limited. A handler should therefore decode the body and free
  // it before any long work.
  virtual Body take_body() = 0;

  // Reads the next bytes of the body into `buffer`, on a route that streams the body. Waits for at
  // least one byte. Returns 0 at the end of the body. Throws StatusError if the client disconnects
  // or times out, or if the body is malformed or too large. If the handler does not catch the
  // error, the server answers with it.
  virtual size_t read_body(std::span<char> buffer) = 0;

  // Sends a whole response. Returns false if the client is gone. REQUIRES: no response has begun.
  virtual bool respond(Response response) = 0;

  // Streams a response: begin_stream(), any number of write(), then finish(). Each piece is one
  // chunk and is sent immediately. `first` goes out with the head and `last` with the end, if
  // given. If the handler returns without finish(), the server finishes the response. If the
  // handler throws, the connection is closed early, so that the client sees an incomplete response.
  // REQUIRES: no response has begun; write() and finish() only in between.
  virtual bool begin_stream(int status, std::string_view content_type, Headers headers = {},
                            std::string_view first = {}) = 0;
  // Waits while too many bytes are unsent. Returns false if the client is gone or reads too slowly.
  // Then no more bytes reach the client.
  virtual bool write(std::string_view bytes) = 0;
  virtual bool finish(std::string_view last = {}) = 0;

  // Returns whether the client has closed its connection or its sending side, or the server has
  // closed the connection. If the server has only cancelled the request (see Server::drain), this
  // returns false: a short response still reaches the client.
  virtual bool client_gone() const noexcept = 0;

  // Sets a callback that runs once, on another thread, as soon as the client is gone or the server
  // cancels the request. If either has happened already, the callback runs soon. It never runs
  // after the handler has returned. A new callback replaces an earlier one; an empty callback
  // removes it. When this function returns, the earlier callback does not run any more. The
  // callback must be short and must not call on_client_gone().
  virtual void on_client_gone(std::function<void()> callback) = 0;
};

using Handler = std::function<void(Exchange&)>;

}  // namespace billow::http
