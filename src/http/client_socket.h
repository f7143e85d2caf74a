// A connection to a server whose blocking calls end by a deadline, or when they are cancelled. It
// owns its sockets. One thread uses it; cancel() may come from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "http/client.h"
#include "http/socket_fd.h"

struct sockaddr;

namespace billow::http {

class ClientSocket {
 public:
  explicit ClientSocket(Endpoint endpoint);

  // What the server is called in messages: "127.0.0.1:80", or the path of the socket.
  const std::string& name() const noexcept { return name_; }
  bool is_open() const noexcept { return socket_.is_open(); }
  void close() noexcept;

  // Throws Error.
  void connect(std::chrono::milliseconds timeout);
  // Whether the server has closed the connection, or sent what nobody asked for.
  bool is_stale() const noexcept;

  enum class Result { kSome, kEnd, kFailed };
  // Sends some of `bytes`, or receives some; `n_bytes` tells how many. Waits at most `timeout` for
  // the socket to be ready, and for sending only if `waits`: else 0 bytes may be sent. kFailed: the
  // connection is lost. Throws Error when the time is over, and when cancelled.
  Result send(std::string_view bytes, std::chrono::milliseconds timeout, size_t& n_bytes);
  Result receive(std::span<char> buffer, std::chrono::milliseconds timeout, size_t& n_bytes);
  // Whether something can be received now, without waiting.
  bool has_input() const noexcept;

  void cancel() noexcept;
  bool cancelled() const noexcept { return cancelled_; }

 private:
  using Deadline = std::chrono::steady_clock::time_point;
  void connect_to(const sockaddr& address, unsigned size, Deadline deadline);
  // Waits until the socket is ready for `events` of poll().
  void wait(short events, Deadline deadline, const char* what);
  // How long recv() waits.
  void set_timeout(std::chrono::milliseconds timeout);
  void replace(int fd) noexcept;

  const Endpoint endpoint_;
  const std::string name_;
  std::mutex mutex_;  // guards the replacement of socket_ against cancel(), which shuts it down
  SocketFd socket_;
  std::chrono::milliseconds timeout_{0};  // of recv(); 0: not set
  SocketFd cancel_event_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace billow::http
