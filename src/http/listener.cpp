#include "http/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "base/error.h"
#include "http/socket_address.h"

namespace billow::http {
namespace {

constexpr int kBacklog = 1024;

void set_option(int fd, int level, int name, int value) {
  // The option is an optimization. The socket also works without it.
  static_cast<void>(::setsockopt(fd, level, name, &value, sizeof value));
}

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

uint16_t port_of(const sockaddr& address) {
  return ntohs(address.sa_family == AF_INET
                   ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                   : reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

// Returns a listening socket bound to `address`. On failure the socket is not open and errno is
// set.
SocketFd listening_socket(const addrinfo& address) {
  SocketFd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return socket;
  set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  // "::" serves IPv4 too.
  if (address.ai_family == AF_INET6) set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(socket.get(), address.ai_addr, address.ai_addrlen) == 0 &&
      ::listen(socket.get(), kBacklog) == 0) {
    return socket;
  }
  const int why = errno;
  socket.reset();
  errno = why;
  return socket;
}

// Removes a socket file that no process listens on, to make room for a new one.
void remove_stale_socket(const std::string& path, const sockaddr_un& address) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) return;
  if (!S_ISSOCK(info.st_mode)) {
    throw Error(ErrorCode::kInvalidInput, "cannot listen on " + path + ": it is not a socket");
  }
  const SocketFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!probe.is_open()) throw system_error("cannot make a socket for", path, errno);
  const int result =
      ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  if (result != 0 && errno != ECONNREFUSED && errno != EAGAIN)
    throw system_error("cannot listen on", path, errno);
  if (result == 0 || errno == EAGAIN)  // EAGAIN: the other process is busy
    throw Error(ErrorCode::kIo, "cannot listen on " + path + ": another process listens on it");
  ::unlink(path.c_str());
}

}  // namespace

Listener Listener::on_tcp(const std::string& host, uint16_t port) {
  const std::string where = host + ":" + std::to_string(port);
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failed != 0) {
    throw Error(ErrorCode::kIo, "cannot listen on " + where + ": " + ::gai_strerror(failed));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  int why = EADDRNOTAVAIL;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
      if (address->ai_family != family) continue;
      Listener listener(listening_socket(*address));
      if (!listener.socket_.is_open()) {
        why = errno;
        continue;
      }
      sockaddr_storage bound{};
      socklen_t size = sizeof bound;
      auto& plain = reinterpret_cast<sockaddr&>(bound);
      if (::getsockname(listener.fd(), &plain, &size) != 0) {
        throw system_error("cannot listen on", where, errno);
      }
      listener.port_ = port_of(plain);
      listener.bind_ = is_loopback(plain) ? BindKind::kLoopback : BindKind::kNetwork;
      return listener;
    }
  }
  throw system_error("cannot listen on", where, why);
}

Listener Listener::on_unix(const std::string& path, unsigned mode) {
  const sockaddr_un address = unix_address(path);
  remove_stale_socket(path, address);
  Listener listener(SocketFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
  if (!listener.socket_.is_open()) throw system_error("cannot make a socket for", path, errno);
  // No client can connect before listen(), and by then the file has its permissions.
  const auto* plain = reinterpret_cast<const sockaddr*>(&address);
  if (::bind(listener.fd(), plain, sizeof address) != 0) {
    throw system_error("cannot listen on", path, errno);
  }
  listener.path_ = path;
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) throw system_error("cannot listen on", path, errno);
  listener.device_ = info.st_dev;  // from here on, the destructor removes the file
  listener.inode_ = info.st_ino;
  if (::chmod(path.c_str(), mode) != 0 || ::listen(listener.fd(), kBacklog) != 0)
    throw system_error("cannot listen on", path, errno);
  return listener;
}

Listener::~Listener() { close(); }

void Listener::close() {
  struct stat info{};
  if (socket_.is_open() && !path_.empty() && ::lstat(path_.c_str(), &info) == 0 &&
      info.st_dev == device_ && info.st_ino == inode_) {
    ::unlink(path_.c_str());
  }
  socket_.reset();
}

Accepted Listener::accept(int& error_number) const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto& plain = reinterpret_cast<sockaddr&>(address);
  Accepted accepted{SocketFd(::accept4(fd(), &plain, &size, SOCK_NONBLOCK | SOCK_CLOEXEC)), {}};
  error_number = accepted.socket.is_open() ? 0 : errno;
  if (!accepted.socket.is_open()) return accepted;
  accepted.peer = bind_ == BindKind::kUnixSocket ? "unix" : address_text(plain);
  if (port_ != 0) set_tcp_options(accepted.socket.get());
  return accepted;
}

}  // namespace billow::http
