// The Exchange of a request on a connection: where its handler's thread and the connection's I/O
// thread meet. Body bytes go one way and output the other, each with a bound; a `wake` function
// tells the connection that there is something to do. No sockets here.
//
// Output goes out on the handler's thread as long as the client takes it, which spares a switch of
// threads for each piece; the rest is left to the connection.
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

// How this answer is to be framed.
struct Framing {
  int version = 11;
  bool keep_alive = true;
  bool expects_continue = false;
  // Whether what the handler leaves of the body is little enough to be read and forgotten.
  bool rest_is_short = true;
};

class LiveExchange final : public Exchange {
 public:
  // The answer to a request that could not be read, by status and text.
  using ShapeError = std::function<Response(int status, const std::string& text)>;

  // Sends the beginning of the pieces, without waiting, and returns how many bytes; 0 also when
  // something is wrong, which the connection will find out.
  using SendNow = std::function<size_t(std::span<const std::string> pieces)>;

  // `added` goes into the head of every answer. `wake` is called from the handler's thread whenever
  // the connection may have something to do; it must not block. `send_now` is called from the same
  // thread, never again after mark_gone(), and not while something taken is unsent; may be empty.
  LiveExchange(Request request, Framing framing, Headers added, size_t max_unsent_bytes,
               std::function<void()> wake, SendNow send_now = {});

  // Before the handler runs: the share of the budget that its body has.
  void keep_reservation(BodyBudget::Reservation reservation) {
    body_reservation_ = std::move(reservation);
  }

  // The handler's side.
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

  // Runs the handler to its end, whatever it throws, and sees to it that there is an answer.
  void run(const Handler& handler, const ShapeError& shape_error);
  // The same without a handler.
  void answer(Response response);

  // The connection's side.
  std::vector<std::string> take_output();
  void sent(size_t n_bytes);  // of what take_output() gave
  bool flushed() const;       // nothing to take, and all that was taken was sent
  bool over() const;          // the handler has returned
  bool must_close() const;    // the connection ends with this answer

  void put_body(std::string bytes);
  void end_body();
  void fail_body(ParseFailure failure);
  size_t unread_bytes() const;  // of the body, put and not read by the handler
  // Since when the handler waits for bytes of the body.
  std::optional<std::chrono::steady_clock::time_point> reading_since() const;

  // Unblocks a handler that writes; fail_body() unblocks one that reads. Does not call its
  // callback.
  void mark_gone();
  // Calls the handler's callback if it is due.
  void call_back_if_gone();

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

  Request request_;  // of the handler's thread, once it runs
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
  size_t n_unsent_bytes_ = 0;  // in output_ and taken from it
  size_t n_taken_bytes_ = 0;   // of these
  std::deque<std::string> body_;
  size_t body_offset_ = 0;  // what was read of body_.front()
  size_t n_body_bytes_ = 0;
  bool body_ended_ = false;
  std::optional<ParseFailure> body_failure_;
  std::optional<std::chrono::steady_clock::time_point> reading_since_;
  bool over_ = false;
  std::atomic<bool> gone_{false};

  std::mutex callback_mutex_;  // held while the callback runs
  std::function<void()> callback_;
};

}  // namespace billow::http
