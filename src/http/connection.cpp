#include "http/connection.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "http/body_room.h"
#include "http/live_exchange.h"
#include "http/parser.h"

namespace billow::http {
namespace {

namespace asio = boost::asio;
using asio::awaitable;
using Clock = std::chrono::steady_clock;
using Strand = asio::strand<asio::io_context::executor_type>;
using boost::system::error_code;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr Clock::time_point kForever = Clock::time_point::max();
constexpr size_t kReadBytes = 64 << 10;
constexpr size_t kMinInputBytes = 256 << 10;  // the max of bytes that are read but not parsed
// If a handler leaves at most this much of a body unread, the rest is read and dropped. The
// connection then stays open.
constexpr size_t kShortRestBytes = 256 << 10;
// Bytes written before the thread serves other connections.
constexpr size_t kTurnBytes = 1 << 20;
// How long a client may take to read the last response and close. If the server closed first, it
// would reset the connection while the client still sends. The client might then never read the
// response.
constexpr std::chrono::milliseconds kLingerTime{2'000};

// Sends a first part of the pieces without waiting. Returns the number of bytes, or 0 on failure.
size_t send_some(int fd, std::span<const std::string> pieces) {
  std::array<iovec, 16> parts;
  const size_t n = std::min(parts.size(), pieces.size());
  for (size_t i = 0; i < n; ++i)
    parts[i] = {.iov_base = const_cast<char*>(pieces[i].data()), .iov_len = pieces[i].size()};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = n;
  const ssize_t n_sent = ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  return n_sent > 0 ? static_cast<size_t>(n_sent) : 0;
}

// Returns the failure for a response that has no reader: the client has reset its connection, or
// the server stops.
ParseFailure left_while(std::string_view part) {
  return {499, "the connection was closed before the " + std::string(part) + " was complete"};
}

// A condition that a coroutine waits for. All code runs on the connection's strand, so a
// notification cannot be lost between a check and a wait.
class Signal {
 public:
  explicit Signal(const Strand& strand) : timer_(strand) {}
  awaitable<void> wait(Clock::time_point deadline = kForever) {
    timer_.expires_at(deadline);
    co_await timer_.async_wait(kAwait);
  }
  void notify() { timer_.cancel(); }

 private:
  asio::steady_timer timer_;
};

class ActiveRequest {
 public:
  explicit ActiveRequest(Service& service) : service_(service) { service_.begin_request(); }
  ~ActiveRequest() { service_.end_request(); }
  ActiveRequest(const ActiveRequest&) = delete;
  ActiveRequest& operator=(const ActiveRequest&) = delete;

 private:
  Service& service_;
};

// Three coroutines on one strand. serve() handles requests one after another. read_loop() fills in_
// while there is room. write_loop() sends the output of exchange_ and direct_.
class SocketConnection final : public Connection,
                               public std::enable_shared_from_this<SocketConnection> {
 public:
  SocketConnection(Service& service, asio::io_context& io, Accepted accepted, BindKind bind,
                   ConnectionTicket ticket)
      : service_(service),
        bind_(bind),
        peer_(std::move(accepted.peer)),
        ticket_(std::move(ticket)),
        strand_(asio::make_strand(io)),
        socket_(strand_),
        attention_(strand_),
        room_(strand_),
        output_(strand_),
        write_timer_(strand_) {
    const asio::generic::stream_protocol protocol(AF_UNSPEC, 0);
    socket_.assign(protocol, accepted.socket.get());
    accepted.socket.release();
    socket_.non_blocking(true);
  }

  void run() {
    spawn(serve());
    spawn(read_loop());
    spawn(write_loop());
  }

  void cancel() override {
    asio::post(strand_, [self = shared_from_this()] {
      self->cancelled_ = true;
      if (self->exchange_) self->exchange_->cancel();
    });
  }
  void abort() override {
    asio::post(strand_, [self = shared_from_this()] { self->close_now(); });
  }

 private:
  void spawn(awaitable<void> task) {
    asio::co_spawn(strand_, std::move(task),
                   asio::bind_executor(strand_, [self = shared_from_this()](std::exception_ptr e) {
                     if (e) self->close_now();
                   }));
  }

  const ServerOptions& options() const { return service_.options(); }
  std::string_view input() const {
    return {static_cast<const char*>(in_.data().data()), in_.size()};
  }
  void consume(size_t n_bytes) {
    in_.consume(n_bytes);
    room_.notify();
  }
  size_t max_input_bytes() const {
    return std::max<size_t>(kMinInputBytes, options().max_header_bytes + kReadBytes);
  }

  awaitable<void> serve();
  awaitable<bool> serve_request();
  awaitable<std::optional<ParseFailure>> read_head(RequestParser& parser, bool& has_head);
  awaitable<std::optional<ParseFailure>> read_body(RequestParser& parser, const Route& route,
                                                   bool expects_continue, Body& body);
  awaitable<void> attend(RequestParser& parser, uint64_t max_body_bytes);
  awaitable<bool> skip_rest_of_body(RequestParser& parser);
  awaitable<void> close_gently();
  awaitable<void> read_loop();
  awaitable<void> write_loop();
  awaitable<bool> send(std::vector<std::string> pieces, LiveExchange* exchange);
  awaitable<bool> wait_until_writable();

  void skip_blank_lines();
  std::shared_ptr<LiveExchange> make_exchange(Request request, Framing framing, Headers added);
  void start_handler(const Route& route);
  void answer_unhandled(Response response, const Route* route, std::string_view why);
  void feed_body(RequestParser& parser, uint64_t max_body_bytes);
  void input_ended();
  void close_now();
  void wake();

  Service& service_;
  const BindKind bind_;
  const std::string peer_;
  const ConnectionTicket ticket_;
  Strand strand_;
  asio::generic::stream_protocol::socket socket_;
  Signal attention_;  // for serve()
  Signal room_;       // free space in in_, for read_loop()
  Signal output_;     // for write_loop()
  asio::steady_timer write_timer_;
  boost::beast::flat_buffer in_;     // read, not parsed
  std::vector<std::string> direct_;  // output to send without an exchange
  std::shared_ptr<LiveExchange> exchange_;
  Clock::time_point began_at_ = Clock::now();  // time of the current request's first byte
  uint64_t n_body_bytes_ = 0;                  // bytes of the current body that exchange_ received
  bool body_is_over_ = false;                  // ended or failed
  bool is_idle_ = false;                       // every request of the client is answered
  bool eof_ = false;                           // the client sends no more bytes
  bool closed_ = false;
  bool cancelled_ = false;                // by the server
  bool is_blocked_ = false;               // write_loop() waits for the client to read
  std::atomic<bool> wake_posted_{false};  // posted by the handler's thread, not run yet
};

awaitable<void> SocketConnection::serve() {
  if (ticket_ == nullptr) {
    constexpr const char* kWhy = "too many connections";
    Request unread;
    unread.peer = peer_;
    exchange_ = make_exchange(std::move(unread), {.keep_alive = false}, {});
    answer_unhandled(service_.error_response(503, "", kWhy), nullptr, kWhy);
    while (!closed_ && !exchange_->flushed()) co_await attention_.wait();
  } else {
    for (;;) {
      const bool goes_on = co_await serve_request();
      if (!goes_on) break;
    }
  }
  co_await close_gently();
  close_now();
}

// Answers one request. Returns false if the connection must be closed.
awaitable<bool> SocketConnection::serve_request() {
  RequestParser parser(options().max_header_bytes);
  bool has_head = false;
  std::optional<ParseFailure> failure = co_await read_head(parser, has_head);
  if (!has_head && !failure) co_return false;
  const ActiveRequest active(service_);
  uint64_t max_body_bytes = options().max_body_bytes;
  Decision decision;
  Framing framing{.keep_alive = false};
  if (!failure) {
    RequestHead& head = parser.head();
    framing = {.version = head.version,
               .keep_alive = true,
               .expects_continue = head.expects_continue,
               .rest_is_short = head.content_length.value_or(0) <= kShortRestBytes};
    decision = service_.decide(head, bind_, peer_);
    framing.keep_alive = decision.keep_alive;
  }
  decision.request.peer = peer_;
  const Route* route = decision.route;
  if (route != nullptr) {
    if (route->streams_body) max_body_bytes = UINT64_MAX;
    max_body_bytes = route->max_body_bytes.value_or(max_body_bytes);
  }
  Body body{.text = {}, .reservation = BodyBudget::Reservation(service_.bodies())};
  if (route != nullptr && !decision.answer && !route->streams_body) {
    failure = co_await read_body(parser, *route, framing.expects_continue, body);
  }
  if (failure) {
    body = {};
    framing.keep_alive = false;
    decision.answer =
        service_.error_response(failure->status, decision.request.path, failure->text);
    decision.why = std::move(failure->text);
  }
  decision.request.body = std::move(body.text);
  exchange_ = make_exchange(std::move(decision.request), framing, std::move(decision.added));
  n_body_bytes_ = 0;
  body_is_over_ = false;
  exchange_->keep_reservation(std::move(body.reservation));
  if (parser.done()) {
    exchange_->put_body(parser.take_body());
    exchange_->end_body();
    body_is_over_ = true;
  }
  if (eof_) exchange_->mark_gone();
  if (cancelled_) exchange_->cancel();
  if (decision.answer) {
    answer_unhandled(*std::move(decision.answer), route, decision.why);
  } else {
    start_handler(*route);
  }
  co_await attend(parser, max_body_bytes);
  if (closed_ || exchange_->must_close()) co_return false;
  const bool is_clear = co_await skip_rest_of_body(parser);
  co_return is_clear;
}

void SocketConnection::skip_blank_lines() {
  size_t n = 0;
  const std::string_view bytes = input();
  while (n < bytes.size() && (bytes[n] == '\r' || bytes[n] == '\n')) ++n;
  if (n > 0) consume(n);
}

// Returns nullopt if the head is complete, or if no response is needed: the client has closed the
// connection, or was idle for too long.
awaitable<std::optional<ParseFailure>> SocketConnection::read_head(RequestParser& parser,
                                                                   bool& has_head) {
  bool began = false;
  Clock::time_point deadline = Clock::now() + options().idle_timeout;
  for (;;) {
    if (closed_ && began) co_return left_while("header");
    if (closed_) co_return std::nullopt;
    if (!began) skip_blank_lines();
    if (in_.size() > 0) {
      if (!began) {
        began_at_ = Clock::now();
        deadline = began_at_ + options().header_timeout;
      }
      began = true;
      is_idle_ = false;
      consume(parser.put(input()));
      if (const ParseFailure* failure = parser.failure()) co_return *failure;
      has_head = parser.head_done();
      if (has_head) co_return std::nullopt;
    }
    is_idle_ = !began;
    if (!began && (eof_ || Clock::now() >= deadline)) co_return std::nullopt;
    if (eof_) co_return ParseFailure{400, "the header is incomplete"};
    if (Clock::now() >= deadline) co_return ParseFailure{408, "the header took too long"};
    co_await attention_.wait(deadline);
  }
}

awaitable<std::optional<ParseFailure>> SocketConnection::read_body(RequestParser& parser,
                                                                   const Route& route,
                                                                   bool expects_continue,
                                                                   Body& body) {
  const uint64_t max_bytes = route.max_body_bytes.value_or(options().max_body_bytes);
  const ParseFailure too_large{413,
                               "the body has more than " + std::to_string(max_bytes) + " bytes"};
  if (parser.head().content_length.value_or(0) > max_bytes) co_return too_large;
  if (expects_continue && !parser.done() && in_.size() == 0) {
    direct_.emplace_back("HTTP/1.1 100 Continue\r\n\r\n");
    output_.notify();
  }
  const uint64_t max = std::min(parser.head().content_length.value_or(max_bytes), max_bytes);
  const Clock::time_point end = Clock::now() + options().body_timeout;
  Clock::time_point deadline = std::min(end, Clock::now() + options().body_idle_timeout);
  while (!parser.done()) {
    if (closed_) co_return left_while("body");
    const size_t used = parser.put(input());
    consume(used);
    const std::string piece = parser.take_body();
    if (const ParseFailure* failure = parser.failure()) co_return *failure;
    if (body.text.size() + piece.size() > max_bytes) co_return too_large;
    if (!make_room(body, piece.size(), max)) {
      co_return ParseFailure{503, no_room_text(service_.bodies())};
    }
    body.text += piece;
    if (used > 0) deadline = std::min(end, Clock::now() + options().body_idle_timeout);
    if (parser.done() || used > 0) continue;
    if (eof_) co_return ParseFailure{400, "the body is incomplete"};
    if (Clock::now() >= deadline) co_return ParseFailure{408, "the body took too long"};
    co_await attention_.wait(deadline);
  }
  co_return std::nullopt;
}

std::shared_ptr<LiveExchange> SocketConnection::make_exchange(Request request, Framing framing,
                                                              Headers added) {
  // A running handler keeps the connection alive, so `this` is valid whenever the handler wakes it.
  LiveExchange::SendNow send_now;
  // The handler's thread must not overtake a "100 Continue" that may still be unsent.
  if (!framing.expects_continue) {
    send_now = [fd = socket_.native_handle()](std::span<const std::string> pieces) {
      return send_some(fd, pieces);
    };
  }
  return std::make_shared<LiveExchange>(
      std::move(request), framing, std::move(added), options().max_unsent_bytes, [this] { wake(); },
      std::move(send_now));
}

void SocketConnection::start_handler(const Route& route) {
  const auto work = [self = shared_from_this(), exchange = exchange_, &route] {
    exchange->run(route.handler, [&](int status, const std::string& text) {
      return self->service_.error_response(status, exchange->request().path, text);
    });
  };
  if (!service_.handlers().run(work)) {
    constexpr const char* kWhy = "no thread is available for the request";
    answer_unhandled(service_.error_response(503, exchange_->request().path, kWhy), &route, kWhy);
  }
}

void SocketConnection::answer_unhandled(Response response, const Route* route,
                                        std::string_view why) {
  const Headers more =
      service_.report({.request = exchange_->request(),
                       .route = route != nullptr ? std::string_view(route->pattern) : "",
                       .status = response.status,
                       .why = why,
                       .time = Clock::now() - began_at_});
  for (const Headers::Field& field : more) response.headers.set(field.name, field.value);
  exchange_->answer(std::move(response));
}

// Waits until the handler has returned and its response is sent.
awaitable<void> SocketConnection::attend(RequestParser& parser, uint64_t max_body_bytes) {
  for (;;) {
    const bool over = exchange_->over();
    if (over && (closed_ || exchange_->flushed())) co_return;
    Clock::time_point deadline = kForever;
    if (!over && !body_is_over_) {
      feed_body(parser, max_body_bytes);
      if (const auto since = exchange_->reading_since(); since && !body_is_over_) {
        deadline = *since + options().body_idle_timeout;
        if (Clock::now() >= deadline) {
          exchange_->fail_body({408, "the body took too long"});
          body_is_over_ = true;
        }
      }
    }
    co_await attention_.wait(deadline);
  }
}

// Passes the received part of the body to the handler while there is room for it.
void SocketConnection::feed_body(RequestParser& parser, uint64_t max_body_bytes) {
  const auto fail = [&](ParseFailure failure) {
    exchange_->fail_body(std::move(failure));
    body_is_over_ = true;
  };
  if (closed_) return fail(left_while("body"));
  if (parser.head().content_length.value_or(0) > max_body_bytes) {
    return fail({413, "the body has more than " + std::to_string(max_body_bytes) + " bytes"});
  }
  if (exchange_->unread_bytes() >= options().max_unread_bytes) return;
  const size_t used = parser.put(input());
  consume(used);
  std::string bytes = parser.take_body();
  n_body_bytes_ += bytes.size();
  exchange_->put_body(std::move(bytes));
  if (const ParseFailure* failure = parser.failure()) return fail(*failure);
  if (n_body_bytes_ > max_body_bytes) {
    return fail({413, "the body has more than " + std::to_string(max_body_bytes) + " bytes"});
  }
  if (parser.done()) {
    exchange_->end_body();
    body_is_over_ = true;
  } else if (used == 0 && eof_) {
    fail({400, "the body is incomplete"});
  }
}

// Reads the rest of the body that the handler has left. Returns false if the rest is too long or
// does not arrive.
awaitable<bool> SocketConnection::skip_rest_of_body(RequestParser& parser) {
  const Clock::time_point deadline = Clock::now() + options().header_timeout;
  size_t n_skipped = 0;
  while (!parser.done()) {
    const size_t used = parser.put(input());
    consume(used);
    n_skipped += parser.take_body().size();
    if (parser.done()) break;
    if (closed_ || eof_ || parser.failure() != nullptr || n_skipped > kShortRestBytes ||
        Clock::now() >= deadline) {
      co_return false;
    }
    if (used == 0) co_await attention_.wait(deadline);
  }
  co_return true;
}

awaitable<void> SocketConnection::close_gently() {
  if (closed_ || is_idle_) co_return;
  error_code code;
  if (socket_.shutdown(asio::socket_base::shutdown_send, code)) co_return;
  const Clock::time_point deadline = Clock::now() + kLingerTime;
  while (!closed_ && !eof_ && Clock::now() < deadline) {
    consume(in_.size());
    co_await attention_.wait(deadline);
  }
}

awaitable<void> SocketConnection::read_loop() {
  while (!closed_ && !eof_) {
    if (in_.size() >= max_input_bytes()) {
      co_await room_.wait();
      continue;
    }
    co_await socket_.async_wait(asio::socket_base::wait_read, kAwait);
    if (closed_) break;
    error_code code;
    const size_t n = socket_.read_some(in_.prepare(kReadBytes), code);
    in_.commit(n);
    if (code == asio::error::eof) {
      input_ended();
    } else if (code && code != asio::error::would_block && code != asio::error::interrupted) {
      close_now();
    } else {
      attention_.notify();
    }
  }
}

void SocketConnection::input_ended() {
  eof_ = true;
  if (exchange_) {
    exchange_->mark_gone();
    exchange_->call_back_if_due();
  }
  attention_.notify();
}

awaitable<void> SocketConnection::write_loop() {
  while (!closed_) {
    LiveExchange* exchange = nullptr;
    std::vector<std::string> pieces = std::exchange(direct_, {});
    const std::shared_ptr<LiveExchange> current = exchange_;
    if (pieces.empty() && current) {
      pieces = current->take_output();
      exchange = current.get();
    }
    if (pieces.empty()) {
      co_await output_.wait();
      continue;
    }
    const bool is_sent = co_await send(std::move(pieces), exchange);
    if (!is_sent) close_now();
    attention_.notify();
  }
}

awaitable<bool> SocketConnection::send(std::vector<std::string> pieces, LiveExchange* exchange) {
  size_t first = 0;  // the next piece to send
  size_t offset = 0;
  size_t n_turn_bytes = 0;
  while (first < pieces.size()) {
    std::array<asio::const_buffer, 16> buffers;
    for (size_t i = 0; i < buffers.size() && first + i < pieces.size(); ++i) {
      buffers[i] = asio::buffer(pieces[first + i]);
    }
    buffers[0] += offset;
    error_code code;
    size_t n_sent = socket_.write_some(buffers, code);
    if (code == asio::error::would_block || n_turn_bytes >= kTurnBytes) {
      n_turn_bytes = 0;
      const bool may_go_on = co_await wait_until_writable();
      if (!may_go_on) co_return false;
    } else if (code) {
      co_return false;
    }
    n_turn_bytes += n_sent;
    if (exchange != nullptr && n_sent > 0) exchange->sent(n_sent);
    for (; first < pieces.size() && n_sent >= pieces[first].size() - offset; ++first) {
      n_sent -= pieces[first].size() - offset;
      offset = 0;
    }
    offset += n_sent;
  }
  co_return true;
}

awaitable<bool> SocketConnection::wait_until_writable() {
  is_blocked_ = true;
  write_timer_.expires_after(options().slow_reader_timeout);
  write_timer_.async_wait([self = shared_from_this()](const error_code& code) {
    if (!code && self->is_blocked_ && self->write_timer_.expiry() <= Clock::now()) {
      self->close_now();
    }
  });
  co_await socket_.async_wait(asio::socket_base::wait_write, kAwait);
  is_blocked_ = false;
  write_timer_.cancel();
  co_return !closed_;
}

// Runs on the handler's thread or any other thread.
void SocketConnection::wake() {
  if (wake_posted_.exchange(true)) return;
  asio::post(strand_, [self = shared_from_this()] {
    self->wake_posted_ = false;
    self->output_.notify();
    self->attention_.notify();
    if (self->exchange_) self->exchange_->call_back_if_due();
  });
}

void SocketConnection::close_now() {
  if (closed_) return;
  closed_ = true;
  eof_ = true;
  if (exchange_)
    exchange_->mark_gone();  // before the socket closes, because the handler sends through it
  error_code code;
  if (socket_.close(code)) log::debug("cannot close a connection cleanly: " + code.message());
  write_timer_.cancel();
  for (Signal* signal : {&attention_, &room_, &output_}) signal->notify();
  if (exchange_) exchange_->call_back_if_due();
}

}  // namespace

std::shared_ptr<Connection> Connection::start(Service& service, asio::io_context& io,
                                              Accepted accepted, BindKind bind,
                                              ConnectionTicket ticket) {
  auto connection =
      std::make_shared<SocketConnection>(service, io, std::move(accepted), bind, std::move(ticket));
  connection->run();
  return connection;
}

}  // namespace billow::http
