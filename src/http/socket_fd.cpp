#include "http/socket_fd.h"

#include <unistd.h>

namespace billow::http {

void SocketFd::reset(int fd) noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

}  // namespace billow::http
