// A connection to a server. Its blocking calls end after a deadline or when they are cancelled. It
// owns its sockets. One thread uses it; cancel() is thread-safe.
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

  // The server's name in messages: "127.0.0.1:80", or the path of the socket.
  const std::string& name() const noexcept { return name_; }
  bool is_open() const noexcept { return socket_.is_open(); }
  void close() noexcept;

  // Throws Error.
  void connect(std::chrono::milliseconds timeout);
  // Returns whether the server has closed the connection or has sent unexpected bytes.
  bool is_stale() const noexcept;

  enum class Result { kSome, kEnd, kFailed };
  // Sends a part of `bytes`, or receives a part into `buffer`, and sets `n_bytes` to its size.
  // Waits at most `timeout` until the socket is ready. send() sends 0 bytes if a response arrives
  // first. kFailed: the connection is lost. Throws Error after the timeout or when cancelled.
  Result send(std::string_view bytes, std::chrono::milliseconds timeout, size_t& n_bytes);
  Result receive(std::span<char> buffer, std::chrono::milliseconds timeout, size_t& n_bytes);
  // Returns whether bytes can be received without waiting.
  bool has_input() const noexcept;

  void cancel() noexcept;
  bool cancelled() const noexcept { return cancelled_; }

 private:
  using Deadline = std::chrono::steady_clock::time_point;
  void connect_to(const sockaddr& address, unsigned size, Deadline deadline);
  // Waits until the socket is ready for `events` of poll().
  void wait(short events, Deadline deadline, const char* what);
  // Sets how long recv() waits.
  void set_timeout(std::chrono::milliseconds timeout);
  void replace(int fd) noexcept;

  const Endpoint endpoint_;
  const std::string name_;
  std::mutex
      mutex_;  // guards the replacement of socket_ against cancel(), which shuts down the socket
  SocketFd socket_;
  std::chrono::milliseconds timeout_{0};  // of recv(); 0: not set
  SocketFd cancel_event_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace billow::http
