#include "http/server.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <chrono>
#include <exception>
#include <future>
#include <list>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "http/connection.h"
#include "http/listener.h"
#include "http/service.h"

namespace billow::http {
namespace {

namespace asio = boost::asio;
using Strand = asio::strand<asio::io_context::executor_type>;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
// How many connections beyond the limit get an error response. Further connections are closed
// without a response.
constexpr size_t kMaxRefusals = 64;
// The pause before the next try if the system has no free file descriptor.
constexpr std::chrono::milliseconds kAcceptPause{100};
// The least time between two log lines about this.
constexpr std::chrono::minutes kAcceptLogEvery{1};

// Returns whether the system has no file descriptor or memory for a connection.
bool is_exhausted(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

class Server::Transport {
 public:
  Transport(ServerOptions options, std::vector<Route> routes)
      // One thread at a time runs the I/O, so no time is lost on waking other threads.
      : io_(1),
        service_(std::move(options), std::move(routes), [this] { return io_.run_one() > 0; }),
        work_(asio::make_work_guard(io_)),
        accepting_(asio::make_strand(io_)) {
    const ServerOptions& chosen = service_.options();
    if (!chosen.host.empty()) add(Listener::on_tcp(chosen.host, chosen.port));
    if (!chosen.socket_path.empty()) add(Listener::on_unix(chosen.socket_path, chosen.socket_mode));
    if (doors_.empty()) throw Error(ErrorCode::kInvalidInput, "a server needs a host or a socket");
  }
  ~Transport() { stop(); }

  // Starts to serve.
  void start() {
    is_started_ = service_.handlers().start();
    if (!is_started_) throw Error(ErrorCode::kIo, "no thread is available for the server");
    for (Door& door : doors_) asio::co_spawn(accepting_, accept_loop(door), asio::detached);
  }

  Service& service() { return service_; }
  const Service& service() const { return service_; }
  uint16_t port() const { return port_; }

  // Stops accepting connections. Returns when no client can connect any more.
  void stop_accepting() {
    const std::lock_guard lock(stop_mutex_);
    if (doors_are_closed_) return;
    doors_are_closed_ = true;
    if (!is_started_) return;
    std::promise<void> closed;
    asio::post(accepting_, [&] {
      for (Door& door : doors_) door.close();
      is_accepting_ = false;
      closed.set_value();
    });
    closed.get_future().wait();
  }

  void cancel_requests() { for_each_connection(&Connection::cancel); }

  void stop() {
    stop_accepting();
    const std::lock_guard lock(stop_mutex_);
    if (!is_started_) return;
    for_each_connection(&Connection::abort);
    service_.handlers().finish_work();
    work_.reset();  // the turns end when no I/O work is left
    service_.handlers().join();
    is_started_ = false;
    doors_.clear();
  }

 private:
  // A listener, and a descriptor that waits for connections at its socket. The descriptor does not
  // own the socket. Each door has its own pause, because a new wait would end the wait of another.
  struct Door {
    Door(Strand& strand, Listener from)
        : listener(std::move(from)), descriptor(strand, listener.fd()), pause(strand) {}
    ~Door() { close(); }
    Door(const Door&) = delete;
    Door& operator=(const Door&) = delete;

    void close() {
      if (descriptor.is_open()) descriptor.release();
      pause.cancel();
      listener.close();
    }

    Listener listener;
    asio::posix::stream_descriptor descriptor;
    asio::steady_timer pause;
  };

  void add(Listener listener) {
    if (listener.port() != 0) port_ = listener.port();
    doors_.emplace_back(accepting_, std::move(listener));
  }

  void for_each_connection(void (Connection::*action)()) {
    const std::lock_guard lock(connections_mutex_);
    for (const std::weak_ptr<Connection>& weak : connections_) {
      if (const std::shared_ptr<Connection> connection = weak.lock()) (connection.get()->*action)();
    }
  }

  asio::awaitable<void> accept_loop(Door& door) {
    while (is_accepting_) {
      co_await door.descriptor.async_wait(asio::posix::descriptor_base::wait_read, kAwait);
      while (is_accepting_) {
        int why = 0;
        Accepted accepted = door.listener.accept(why);
        if (accepted.socket.is_open()) {
          welcome(std::move(accepted), door.listener.bind());
        } else if (is_exhausted(why)) {
          report_exhaustion(why);
          door.pause.expires_after(kAcceptPause);
          co_await door.pause.async_wait(kAwait);
        } else if (why == EAGAIN || why == EWOULDBLOCK) {
          break;
        }
      }
    }
  }

  // Runs on accepting_.
  void report_exhaustion(int why) {
    const auto now = std::chrono::steady_clock::now();
    if (exhaustion_logged_at_ && now - *exhaustion_logged_at_ < kAcceptLogEvery) return;
    exhaustion_logged_at_ = now;
    const char* advice = why == EMFILE ? "; 'ulimit -n' or LimitNOFILE= allows more" : "";
    log::warn("cannot accept connections: " + std::generic_category().message(why) + advice);
  }

  void welcome(Accepted accepted, BindKind bind) {
    ConnectionTicket ticket = service_.begin_connection();
    const std::lock_guard lock(connections_mutex_);
    std::erase_if(connections_, [](const auto& weak) { return weak.expired(); });
    if (!ticket && connections_.size() >= service_.options().max_connections + kMaxRefusals) {
      Request unread;
      unread.peer = accepted.peer;
      service_.report({.request = unread,
                       .status = 503,
                       .why = "too many connections; this one was closed without a response"});
      return;
    }
    try {
      connections_.push_back(
          Connection::start(service_, io_, std::move(accepted), bind, std::move(ticket)));
    } catch (const std::exception& error) {
      log::warn(std::string("cannot serve a connection: ") + error.what());
    }
  }

  asio::io_context io_;
  Service service_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  Strand accepting_;
  std::list<Door> doors_;
  std::optional<std::chrono::steady_clock::time_point> exhaustion_logged_at_;
  bool is_accepting_ = true;  // used on accepting_
  uint16_t port_ = 0;
  bool is_started_ = false;
  std::mutex stop_mutex_;
  bool doors_are_closed_ = false;
  std::mutex connections_mutex_;
  std::vector<std::weak_ptr<Connection>> connections_;
};

Server::Server(ServerOptions options, std::vector<Route> routes)
    : transport_(std::make_unique<Transport>(std::move(options), std::move(routes))) {
  transport_->start();
}
Server::~Server() = default;

uint16_t Server::port() const noexcept { return transport_->port(); }

bool Server::drain(std::chrono::milliseconds timeout, std::chrono::milliseconds cancel_time) {
  transport_->service().start_draining();
  transport_->stop_accepting();
  const bool all_answered = transport_->service().wait_for_requests(timeout);
  if (!all_answered && cancel_time.count() > 0) {
    transport_->cancel_requests();
    transport_->service().wait_for_requests(cancel_time);
  }
  transport_->stop();
  return all_answered;
}

void Server::stop() { transport_->stop(); }

size_t Server::n_connections() const noexcept { return transport_->service().n_connections(); }
size_t Server::n_active_requests() const noexcept {
  return transport_->service().n_active_requests();
}

}  // namespace billow::http
