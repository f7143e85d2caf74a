#include "http/client_socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <memory>
#include <utility>

#include "base/error.h"
#include "http/socket_address.h"

namespace billow::http {
namespace {

using Clock = std::chrono::steady_clock;

std::string name_of(const Endpoint& endpoint) {
  if (!endpoint.socket_path.empty()) return endpoint.socket_path;
  const bool is_ipv6 = endpoint.host.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + endpoint.host + "]" : endpoint.host) + ":" +
         std::to_string(endpoint.port);
}

// Returns the time for poll(), rounded up so that poll() does not return just before the deadline.
int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, INT_MAX));
}

bool is_transient(int error_number) {
  return error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR;
}

}  // namespace

ClientSocket::ClientSocket(Endpoint endpoint)
    : endpoint_(std::move(endpoint)),
      name_(name_of(endpoint_)),
      cancel_event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!cancel_event_.is_open()) throw system_error("cannot make an event for", name_, errno);
}

void ClientSocket::cancel() noexcept {
  cancelled_ = true;
  {
    const std::scoped_lock lock(mutex_);
    if (socket_.is_open()) ::shutdown(socket_.get(), SHUT_RDWR);  // ends a recv()
  }
  const uint64_t one = 1;
  // The write fails only if the event is already signalled.
  static_cast<void>(!::write(cancel_event_.get(), &one, sizeof one));
}

void ClientSocket::replace(int fd) noexcept {
  const std::scoped_lock lock(mutex_);
  socket_.reset(fd);
  timeout_ = {};
}

void ClientSocket::close() noexcept { replace(-1); }

void ClientSocket::set_timeout(std::chrono::milliseconds timeout) {
  // 0 would mean no timeout.
  const auto some = std::max(timeout, std::chrono::milliseconds(1));
  if (some == timeout_) return;
  const auto seconds = std::chrono::floor<std::chrono::seconds>(some);
  const timeval time{.tv_sec = seconds.count(),
                     .tv_usec = std::chrono::microseconds(some - seconds).count()};
  if (::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) != 0)
    throw system_error("cannot set a time limit for", name_, errno);
  timeout_ = some;
}

void ClientSocket::wait(short events, Deadline deadline, const char* what) {
  for (;;) {
    std::array<pollfd, 2> polled{{{.fd = socket_.get(), .events = events, .revents = 0},
                                  {.fd = cancel_event_.get(), .events = POLLIN, .revents = 0}}};
    const int n = ::poll(polled.data(), polled.size(), milliseconds_until(deadline));
    if (cancelled_) throw Error(ErrorCode::kIo, "the call to " + name_ + " was cancelled");
    if (n < 0 && errno != EINTR) throw system_error("cannot wait for", name_, errno);
    if (n > 0) return;
    if (Clock::now() >= deadline) {
      throw Error(ErrorCode::kIo, std::string("timed out ") + what + " " + name_);
    }
  }
}

void ClientSocket::connect_to(const sockaddr& address, unsigned size, Deadline deadline) {
  replace(::socket(address.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket_.is_open()) throw system_error("cannot make a socket for", name_, errno);
  if (address.sa_family != AF_UNIX) set_tcp_options(socket_.get());
  while (::connect(socket_.get(), &address, size) != 0) {
    // If the backlog of a Unix socket is full, poll() has nothing to wait for.
    if (errno == EAGAIN && Clock::now() < deadline) {
      ::poll(nullptr, 0, 5);
      if (cancelled_) throw Error(ErrorCode::kIo, "the call to " + name_ + " was cancelled");
      continue;
    }
    if (errno == EISCONN) break;
    if (errno != EINPROGRESS && errno != EINTR) {
      throw system_error("cannot connect to", name_, errno);
    }
    wait(POLLOUT, deadline, "connecting to");
    int why = 0;
    socklen_t why_size = sizeof why;
    ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &why, &why_size);
    if (why != 0) throw system_error("cannot connect to", name_, why);
    break;
  }
  // From here on recv() blocks.
  const int flags = ::fcntl(socket_.get(), F_GETFL);
  if (flags < 0 || ::fcntl(socket_.get(), F_SETFL, flags & ~O_NONBLOCK) != 0)
    throw system_error("cannot set up the connection to", name_, errno);
}

void ClientSocket::connect(std::chrono::milliseconds timeout) {
  const Deadline deadline = Clock::now() + timeout;
  if (cancelled_) throw Error(ErrorCode::kIo, "the call to " + name_ + " was cancelled");
  if (!endpoint_.socket_path.empty()) {
    const sockaddr_un address = unix_address(endpoint_.socket_path);
    return connect_to(reinterpret_cast<const sockaddr&>(address), sizeof address, deadline);
  }
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed =
      ::getaddrinfo(endpoint_.host.c_str(), std::to_string(endpoint_.port).c_str(), &hints, &found);
  if (failed != 0) {
    throw Error(ErrorCode::kIo, "cannot find " + name_ + ": " + ::gai_strerror(failed));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    try {
      return connect_to(*address->ai_addr, address->ai_addrlen, deadline);
    } catch (const Error&) {
      close();
      if (address->ai_next == nullptr || cancelled_) throw;
    }
  }
}

bool ClientSocket::has_input() const noexcept {
  pollfd polled{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  return ::poll(&polled, 1, 0) > 0;
}

bool ClientSocket::is_stale() const noexcept { return has_input(); }

ClientSocket::Result ClientSocket::send(std::string_view bytes, std::chrono::milliseconds timeout,
                                        size_t& n_bytes) {
  const Deadline deadline = Clock::now() + timeout;
  n_bytes = 0;
  for (;;) {
    if (cancelled_) throw Error(ErrorCode::kIo, "the call to " + name_ + " was cancelled");
    const ssize_t n =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      n_bytes = static_cast<size_t>(n);
      return Result::kSome;
    }
    if (!is_transient(errno)) return Result::kFailed;
    // A response that arrives before all is sent usually reports an error.
    wait(POLLOUT | POLLIN, deadline, "sending to");
    if (has_input()) return Result::kSome;
  }
}

ClientSocket::Result ClientSocket::receive(std::span<char> buffer,
                                           std::chrono::milliseconds timeout, size_t& n_bytes) {
  const Deadline deadline = Clock::now() + timeout;
  n_bytes = 0;
  set_timeout(timeout);
  for (;;) {
    if (cancelled_) throw Error(ErrorCode::kIo, "the call to " + name_ + " was cancelled");
    // One system call for each piece: poll() before recv() would be a second one.
    const ssize_t n = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (cancelled_) throw Error(ErrorCode::kIo, "the call to " + name_ + " was cancelled");
    if (n > 0) {
      n_bytes = static_cast<size_t>(n);
      return Result::kSome;
    }
    if (n == 0) return Result::kEnd;
    if (!is_transient(errno)) return Result::kFailed;
    wait(POLLIN, deadline, "waiting for");  // after a signal or the timeout
  }
}

}  // namespace billow::http
