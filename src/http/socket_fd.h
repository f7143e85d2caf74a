// Owns a file descriptor; the destructor closes it. One thread at a time.
#pragma once

#include <utility>

namespace billow::http {

class SocketFd {
 public:
  SocketFd() = default;
  explicit SocketFd(int fd) noexcept : fd_(fd) {}
  SocketFd(SocketFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  SocketFd& operator=(SocketFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~SocketFd() { reset(); }

  int get() const noexcept { return fd_; }
  bool is_open() const noexcept { return fd_ >= 0; }
  int release() noexcept { return std::exchange(fd_, -1); }
  void reset(int fd = -1) noexcept;  // closes the previous descriptor

 private:
  int fd_ = -1;
};

// Prepares a connection over TCP: each piece is sent immediately, without waiting for the next, and
// a silent peer is probed. So a peer that vanished without a word (a laptop that sleeps, a router
// that forgot the connection) is noticed within three minutes. Works as far as the system can.
void set_tcp_options(int fd) noexcept;

}  // namespace billow::http
