#include "http/authority.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace billow::http {
namespace {

// Returns the text of an authority without its zone.
std::string text_of(const Authority& authority, bool has_brackets, bool has_colon) {
  std::string text = has_brackets ? "[" + authority.host + "]" : authority.host;
  if (has_colon) text += ":";
  if (authority.port) text += std::to_string(*authority.port);
  return text;
}

TEST(Authority, SeparatesHostAndPort) {
  struct Case {
    const char* text;
    const char* host;
    bool is_ipv6;
    std::optional<uint16_t> port;
  };
  for (const Case& one : {Case{"", "", false, {}},
                          {":80", "", false, 80},
                          {"localhost", "localhost", false, {}},
                          {"LocalHost:11434", "LocalHost", false, 11434},
                          {"a_b-c.example:", "a_b-c.example", false, {}},
                          {"a%20b", "a%20b", false, {}},
                          {"127.0.0.1:65535", "127.0.0.1", false, 65535},
                          {"[::1]", "::1", true, {}},
                          {"[::1]:8080", "::1", true, 8080},
                          {"[fe80::1%25eth0]:1", "fe80::1", true, 1},
                          {"[fe80::1%eth0]", "fe80::1", true, {}},
                          {"[::ffff:127.0.0.1]", "::ffff:127.0.0.1", true, {}},
                          {"::1", "::1", true, {}},
                          {"fd00::1", "fd00::1", true, {}}}) {
    const std::optional<Authority> found = parse_authority(one.text);
    ASSERT_TRUE(found) << one.text;
    EXPECT_EQ(found->host, one.host) << one.text;
    EXPECT_EQ(found->is_ipv6, one.is_ipv6) << one.text;
    EXPECT_EQ(found->port, one.port) << one.text;
  }
}

TEST(Authority, RefusesMalformedText) {
  for (const char* text : {"[::1]evil.com",
                           "[::1].evil.com:80",
                           "[::1]:80evil",
                           "[::1]:80:80",
                           "[::1",
                           "[",
                           "[]",
                           "[::1%]",
                           "[::1%25]",
                           "[::1%a b]",
                           "[localhost]",
                           "[127.0.0.1]",
                           "[v1.x]",
                           "::1]",
                           "]",
                           "192.168.0.9%x.evil.com",
                           "a%",
                           "a%2",
                           "a%zz",
                           "a b",
                           "a/b",
                           "a@b",
                           "user:1@b",
                           "a\\b",
                           "a?b",
                           "a#b",
                           "a:80:80",
                           "a:-1",
                           "a:+1",
                           "a: 1",
                           "a:65536",
                           "a:99999999999",
                           "a:0x50",
                           "a\"b",
                           "a<b",
                           "a\tb",
                           "\xc3\xa4",
                           "::1:80:zz",
                           "::1%eth0"}) {
    EXPECT_FALSE(parse_authority(text)) << text;
  }
  EXPECT_FALSE(parse_authority(std::string("::1\0evil", 8)));
  EXPECT_FALSE(parse_authority(std::string("a\0b", 3)));
}

// Parses random combinations of relevant pieces. The parts of a parsed authority must cover every
// byte of its text.
TEST(Authority, CoversEveryByteOfItsText) {
  constexpr const char* kPieces[] = {"[",  "]",       "::1", "::",       ":",         "%",
                                     "25", "80",      ".",   "evil.com", "127.0.0.1", "localhost",
                                     "@",  "fe80::1", "0",   "/",        "-"};
  std::mt19937 random(7);
  std::uniform_int_distribution<size_t> piece(0, std::size(kPieces) - 1);
  std::uniform_int_distribution<int> length(1, 6);
  size_t n_read = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string text;
    for (int n = length(random); n > 0; --n) text += kPieces[piece(random)];
    const std::optional<Authority> found = parse_authority(text);
    if (!found) continue;
    ++n_read;
    std::string plain = text;
    const bool has_brackets = text.front() == '[';
    if (has_brackets && text.find('%') != std::string::npos)
      plain.erase(text.find('%'), text.find(']') - text.find('%'));
    const bool has_colon = has_brackets ? plain.find("]:") != std::string::npos
                                        : !found->is_ipv6 && plain.find(':') != std::string::npos;
    std::string wanted = text_of(*found, has_brackets, has_colon);
    // A port loses only its leading zeros.
    while (has_colon && wanted.size() < plain.size() && found->port)
      wanted.insert(wanted.rfind(':') + 1, "0");
    ASSERT_EQ(wanted, plain) << text;
  }
  EXPECT_GT(n_read, 1000u);
}

}  // namespace
}  // namespace billow::http
