// The Exchange of a request on a connection. It links the handler's thread and the connection's I/O
// thread. Body bytes go to the handler and output goes to the connection; both have limits. A
// `wake` function notifies the connection. This class uses no sockets.
//
// While the client keeps up, the handler's thread sends the output itself, which avoids a thread
// switch for each piece. The connection sends the rest.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "http/exchange.h"
#include "http/message.h"
#include "http/parser.h"

namespace billow::http {

// How the response is framed.
struct Framing {
  int version = 11;
  bool keep_alive = true;
  bool expects_continue = false;
  // Whether the part of the body that the handler leaves unread is short enough to be read and
  // dropped.
  bool rest_is_short = true;
};

class LiveExchange final : public Exchange {
 public:
  // Makes an error response from a status and a text.
  using ShapeError = std::function<Response(int status, const std::string& text)>;

  // Sends a first part of the pieces without waiting and returns how many bytes it sent. Returns 0
  // also after an error, which the connection finds out later.
  using SendNow = std::function<size_t(std::span<const std::string> pieces)>;

  // `added` goes into the head of every response. The handler's thread calls `wake` whenever the
  // connection may have work; `wake` must not block. The same thread calls `send_now`, but not
  // after mark_gone() and not while taken output is unsent. `send_now` may be empty.
  LiveExchange(Request request, Framing framing, Headers added, size_t max_unsent_bytes,
               std::function<void()> wake, SendNow send_now = {});

  // Keeps the body's reservation. Called before the handler runs.
  void keep_reservation(BodyBudget::Reservation reservation) {
    body_reservation_ = std::move(reservation);
  }

  // Functions for the handler.
  const Request& request() const noexcept override { return request_; }
  Body take_body() override;
  size_t read_body(std::span<char> buffer) override;
  bool respond(Response response) override;
  bool begin_stream(int status, std::string_view content_type, Headers headers,
                    std::string_view first) override;
  bool write(std::string_view bytes) override;
  bool finish(std::string_view last) override;
  bool client_gone() const noexcept override;
  void on_client_gone(std::function<void()> callback) override;

  // Runs the handler, catches all its exceptions, and makes sure that a response is sent.
  void run(const Handler& handler, const ShapeError& shape_error);
  // Sends a response without a handler.
  void answer(Response response);

  // Functions for the connection.
  std::vector<std::string> take_output();
  void sent(size_t n_bytes);  // reports bytes of take_output() as sent
  bool flushed() const;       // all output was taken and sent
  bool over() const;          // the handler has returned
  bool must_close() const;    // the connection closes after this response

  void put_body(std::string bytes);
  void end_body();
  void fail_body(ParseFailure failure);
  size_t unread_bytes() const;  // bytes of the body that the handler has not read
  // When the handler began to wait for bytes of the body; nullopt: it has bytes or does not wait.
  std::optional<std::chrono::steady_clock::time_point> reading_since() const;

  // Unblocks a handler that writes; fail_body() unblocks one that reads. Does not run the handler's
  // callback.
  void mark_gone();
  // Marks the request as cancelled by the server. The client can still receive a response, after
  // which the connection closes. Unblocks a handler that reads, with status 503. Wakes the
  // connection, which runs the handler's callback.
  void cancel();
  // Runs the handler's callback if the client is gone or the request is cancelled.
  void call_back_if_due();

 private:
  enum class Phase { kNothingSent, kStreaming, kAnswered };

  bool is_head() const { return request_.method == Method::kHead; }
  std::string head_text(int status, std::string_view content_type, const Headers& headers,
                        std::optional<uint64_t> length, bool has_body);
  void send_locked(std::string bytes);
  void send_chunk_locked(std::string_view bytes);
  [[nodiscard]] bool flush_locked();
  bool respond_locked(Response response);
  bool finish_locked();
  void close_answer(std::optional<ParseFailure> failure, const ShapeError& shape_error);

  Request request_;  // belongs to the handler's thread once the handler runs
  BodyBudget::Reservation body_reservation_;
  const Headers added_;
  const size_t max_unsent_bytes_;
  const std::function<void()> wake_;
  const SendNow send_now_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Framing framing_;
  Phase phase_ = Phase::kNothingSent;
  bool chunked_ = false;
  std::vector<std::string> output_;
  size_t n_unsent_bytes_ = 0;  // both in output_ and taken from it
  size_t n_taken_bytes_ = 0;   // the part that was taken
  std::deque<std::string> body_;
  size_t body_offset_ = 0;  // bytes of body_.front() that were read
  size_t n_body_bytes_ = 0;
  bool body_ended_ = false;
  std::optional<ParseFailure> body_failure_;
  std::optional<std::chrono::steady_clock::time_point> reading_since_;
  bool over_ = false;
  std::atomic<bool> gone_{false};
  std::atomic<bool> cancelled_{false};

  std::mutex callback_mutex_;  // held while the callback runs
  std::function<void()> callback_;
};

}  // namespace billow::http
