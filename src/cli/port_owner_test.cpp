#include "cli/port_owner.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace billow::cli {
namespace {

TEST(PortOwner, FindsTheListeningProcess) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_GE(listener, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  socklen_t length = sizeof(address);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const uint16_t port = ntohs(address.sin_port);
  EXPECT_FALSE(owner_of_port(port)) << "a bound socket does not listen";
  ASSERT_EQ(::listen(listener, 1), 0);
  const auto owner = owner_of_port(port);
  ASSERT_TRUE(owner);
  EXPECT_EQ(owner->pid, ::getpid());
  EXPECT_EQ(owner->program, "test_cli");
  ::close(listener);
  EXPECT_FALSE(owner_of_port(port));
}

TEST(PortOwner, AMissingProcIsNoOwner) { EXPECT_FALSE(owner_of_port(80, "/nonexistent")); }

}  // namespace
}  // namespace billow::cli
