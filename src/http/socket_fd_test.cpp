#include "http/socket_fd.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "http/listener.h"

namespace billow::http {
namespace {

int option(int fd, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  EXPECT_EQ(::getsockopt(fd, level, name, &value, &size), 0);
  return value;
}

void expect_probes(int fd) {
  EXPECT_NE(option(fd, IPPROTO_TCP, TCP_NODELAY), 0);
  EXPECT_NE(option(fd, SOL_SOCKET, SO_KEEPALIVE), 0);
  const int seconds = option(fd, IPPROTO_TCP, TCP_KEEPIDLE) +
                      option(fd, IPPROTO_TCP, TCP_KEEPCNT) * option(fd, IPPROTO_TCP, TCP_KEEPINTVL);
  EXPECT_LE(seconds, 180);
}

TEST(SocketFd, ConnectionsProbeASilentPeer) {
  const SocketFd plain(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  set_tcp_options(plain.get());
  expect_probes(plain.get());
}

TEST(SocketFd, AcceptedConnectionsProbeASilentPeer) {
  const Listener listener = Listener::on_tcp("127.0.0.1", 0);
  const SocketFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(listener.port());
  ASSERT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
            0);
  pollfd pending{.fd = listener.fd(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&pending, 1, 10'000), 1);
  int error_number = 0;
  const Accepted accepted = listener.accept(error_number);
  ASSERT_TRUE(accepted.socket.is_open()) << error_number;
  expect_probes(accepted.socket.get());
}

}  // namespace
}  // namespace billow::http
