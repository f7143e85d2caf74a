// One request and its answer, as the handler of a route sees them: straight-line code that blocks
// where it must. The server owns the Exchange; a handler uses it on the thread that it was called
// on, and no longer than its call lasts. client_gone() may be asked by any thread.
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

  // The body, on a route that does not stream it; empty from then on. Memory is bounded over all
  // requests, so a handler decodes it and lets it go before it begins what takes long.
  virtual Body take_body() = 0;

  // The next bytes of the body, as many as are there and fit, on a route that streams it; waits for
  // at least one. 0 is the end of the body. Throws StatusError when the client vanishes or stays
  // silent for too long, and for a body that is malformed or too large; let through, it becomes the
  // answer.
  virtual size_t read_body(std::span<char> buffer) = 0;

  // The whole answer. REQUIRES: nothing was answered yet. False: the client is gone.
  virtual bool respond(Response response) = 0;

  // An answer in pieces: its head, then any number of write(), then finish(). Each piece is one
  // chunk, sent at once: `first` with the head, `last` with the end, where they are given. A
  // handler that returns without finish() has finished; one that throws breaks the connection off,
  // so that the client sees that something is missing. REQUIRES: nothing was answered yet; write()
  // and finish() only in between.
  virtual bool begin_stream(int status, std::string_view content_type, Headers headers = {},
                            std::string_view first = {}) = 0;
  // Waits while too much is unsent. False: the client is gone or reads too slowly, and nothing that
  // is written reaches it any more.
  virtual bool write(std::string_view bytes) = 0;
  virtual bool finish(std::string_view last = {}) = 0;

  // The client has closed its connection (or its sending side), or the server is stopping.
  virtual bool client_gone() const noexcept = 0;

  // Calls `callback` once from another thread as soon as the client is gone, also if it is already;
  // not after the handler has returned. It takes the place of an earlier callback; none if empty.
  // Once this returns the earlier one does not run any more. The callback must be short and must
  // not call on_client_gone itself.
  virtual void on_client_gone(std::function<void()> callback) = 0;
};

using Handler = std::function<void(Exchange&)>;

}  // namespace billow::http
