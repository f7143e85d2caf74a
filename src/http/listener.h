// Listening sockets. A Listener owns its socket and, for a Unix socket, the socket file. One thread
// at a time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "http/access.h"
#include "http/socket_fd.h"

namespace billow::http {

struct Accepted {
  SocketFd socket;  // non-blocking
  std::string peer;
};

class Listener {
 public:
  // Listens on the first usable address of `host`, IPv4 before IPv6. Port 0 picks a free port.
  // Throws Error.
  static Listener on_tcp(const std::string& host, uint16_t port);
  // Creates the socket file with the permissions `mode`. Replaces a socket file that no process
  // listens on. Throws Error, also if `path` is in use or is another kind of file.
  static Listener on_unix(const std::string& path, unsigned mode = 0600);

  Listener(Listener&&) noexcept = default;
  Listener& operator=(Listener&&) = delete;
  ~Listener();  // close()

  // Stops listening and removes the socket file if it is still the one that this object created.
  void close();

  int fd() const noexcept { return socket_.get(); }
  uint16_t port() const noexcept { return port_; }  // 0 for a Unix socket
  BindKind bind() const noexcept { return bind_; }

  // Returns the next pending connection; its socket is not open if no connection is pending. Sets
  // `error_number` to the errno value of a failure, or to 0.
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
