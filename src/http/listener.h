// Sockets that wait for connections, and the addresses behind them. A Listener owns its socket and,
// for a Unix socket, the file. One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "http/access.h"
#include "http/socket_fd.h"

namespace billow::http {

struct Accepted {
  SocketFd socket;  // does not block
  std::string peer;
};

class Listener {
 public:
  // Listens at the first address of `host` that is to be had, IPv4 before IPv6; port 0 is one that
  // is free. Throws Error.
  static Listener on_tcp(const std::string& host, uint16_t port);
  // Creates the socket file, readable and writable for this user only, in place of one that nobody
  // listens on any more. Throws Error, also where `path` is in use or is another kind of file.
  static Listener on_unix(const std::string& path);

  Listener(Listener&&) noexcept = default;
  Listener& operator=(Listener&&) = delete;
  ~Listener();  // close()

  // Listens no more, and removes the socket file if it is still its own.
  void close();

  int fd() const noexcept { return socket_.get(); }
  uint16_t port() const noexcept { return port_; }  // 0 of a Unix socket
  BindKind bind() const noexcept { return bind_; }

  // The next connection that waits; its socket is not open where there is none. `error_number` is
  // the errno value of what went wrong, 0 if nothing did.
  Accepted accept(int& error_number) const;

 private:
  explicit Listener(SocketFd socket) : socket_(std::move(socket)) {}

  SocketFd socket_;
  uint16_t port_ = 0;
  BindKind bind_ = BindKind::kUnixSocket;
  std::string path_;  // of the socket file
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
};

}  // namespace billow::http
