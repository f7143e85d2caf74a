#include "http/public_address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <string>

namespace billow::http {
namespace {

bool is_public(const std::string& text) {
  sockaddr_storage address{};
  const bool is_ipv6 = text.find(':') != std::string::npos;
  address.ss_family = is_ipv6 ? AF_INET6 : AF_INET;
  void* at = is_ipv6 ? static_cast<void*>(&reinterpret_cast<sockaddr_in6&>(address).sin6_addr)
                     : &reinterpret_cast<sockaddr_in&>(address).sin_addr;
  EXPECT_EQ(::inet_pton(address.ss_family, text.c_str(), at), 1) << text;
  return is_public_address(reinterpret_cast<const sockaddr&>(address));
}

TEST(PublicAddress, AddressesOfTheInternetArePublic) {
  for (const char* text :
       {"1.1.1.1",         "9.255.255.255",     "11.0.0.0",        "100.63.255.255",
        "100.128.0.0",     "126.255.255.255",   "128.0.0.0",       "169.253.255.255",
        "172.15.255.255",  "172.32.0.0",        "192.167.255.255", "192.169.0.0",
        "198.17.255.255",  "198.20.0.0",        "223.255.255.255", "2000::1",
        "2606:4700::1111", "2a00:1450:4001::1", "2001:200::1",     "2003::1",
        "3ffe::1"})
    EXPECT_TRUE(is_public(text)) << text;
}

TEST(PublicAddress, OtherAddressesAreNot) {
  for (const char* text : {"0.0.0.0",
                           "10.0.0.1",
                           "100.64.0.1",
                           "100.127.255.1",
                           "127.0.0.1",
                           "127.255.255.255",
                           "169.254.169.254",
                           "172.16.0.1",
                           "172.31.255.255",
                           "192.0.0.8",
                           "192.0.2.1",
                           "192.88.99.1",
                           "192.168.1.1",
                           "198.18.0.1",
                           "198.19.255.255",
                           "198.51.100.7",
                           "203.0.113.9",
                           "224.0.0.1",
                           "240.0.0.1",
                           "255.255.255.255",
                           "::",
                           "::1",
                           "::ffff:1.1.1.1",
                           "64:ff9b::1.1.1.1",
                           "fe80::1",
                           "fc00::1",
                           "fd12:3456::1",
                           "ff02::1",
                           "2001::1",
                           "2001:1ff::1",
                           "2001:db8::1",
                           "2002:101:101::1",
                           "3fff::1"})
    EXPECT_FALSE(is_public(text)) << text;
}

TEST(PublicAddress, OtherFamiliesAreNot) {
  sockaddr_storage address{};
  address.ss_family = AF_UNIX;
  EXPECT_FALSE(is_public_address(reinterpret_cast<const sockaddr&>(address)));
}

}  // namespace
}  // namespace billow::http
