#include "http/message.h"

#include <gtest/gtest.h>

#include <optional>

#include "http/url.h"

namespace billow::http {
namespace {

TEST(Headers, LookUpIgnoresCase) {
  Headers headers{{"Content-Type", "text/plain"}, {"X-One", "1"}, {"x-one", "2"}};
  EXPECT_EQ(headers.get("content-type"), "text/plain");
  EXPECT_EQ(headers.get("X-ONE"), "1");
  EXPECT_EQ(headers.count("x-One"), 2u);
  EXPECT_EQ(headers.find("X-Two"), nullptr);
  headers.set("X-ONE", "3");
  EXPECT_EQ(headers.count("X-One"), 1u);
  EXPECT_EQ(headers.get("x-one"), "3");
  headers.remove("CONTENT-TYPE");
  EXPECT_EQ(headers.size(), 1u);
}

TEST(Headers, TokensAreWholeListEntriesOfAllFields) {
  const Headers headers{{"Connection", "Keep-Alive, upgrade"}, {"connection", "close"}};
  EXPECT_TRUE(headers.has_token("Connection", "keep-alive"));
  EXPECT_TRUE(headers.has_token("Connection", "CLOSE"));
  EXPECT_FALSE(headers.has_token("Connection", "keep"));
  EXPECT_FALSE(headers.has_token("Upgrade", "close"));
}

TEST(Headers, AcceptsOnlyTokensWithAWeight) {
  const Headers headers{{"Accept", "text/plain;level=1;q=0.0, TEXT/HTML ; q=0.1"},
                        {"accept", "a/b;q=0.000;x=1,c/d"}};
  EXPECT_TRUE(accepts(headers, "Accept", "text/html"));
  EXPECT_TRUE(accepts(headers, "ACCEPT", "c/d"));
  EXPECT_FALSE(accepts(headers, "Accept", "text/plain"));
  EXPECT_FALSE(accepts(headers, "Accept", "a/b"));
  EXPECT_FALSE(accepts(headers, "Accept", "text"));
  EXPECT_FALSE(accepts(headers, "Accept-Encoding", "c/d"));
}

TEST(Methods, HaveTheNamesOfTheStandard) {
  for (const char* name : {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}) {
    EXPECT_EQ(method_name(method_of(name)), name);
  }
  EXPECT_EQ(method_of("get"), Method::kOther);
  EXPECT_EQ(method_of(""), Method::kOther);
  EXPECT_EQ(method_of("BREW"), Method::kOther);
}

TEST(Status, HasAReasonPhrase) {
  EXPECT_EQ(reason_phrase(404), "Not Found");
  EXPECT_EQ(reason_phrase(799), "Unknown");
}

TEST(PercentEncoding, IsDecoded) {
  EXPECT_EQ(percent_decoded("a%2Fb%20c+d"), "a/b c+d");
  EXPECT_EQ(percent_decoded("a%2fb+c", true), "a/b c");
  EXPECT_EQ(percent_decoded("%00%ff"), std::string("\0\xff", 2));
  EXPECT_EQ(percent_decoded(""), "");
}

TEST(PercentEncoding, RefusesMalformedText) {
  for (const char* text : {"%", "a%2", "%zz", "%2", "%%41", "%4g", "% 41"}) {
    EXPECT_EQ(percent_decoded(text), std::nullopt) << text;
  }
}

TEST(PercentEncoding, RoundTripKeepsAllBytes) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const std::string encoded = percent_encoded(all);
  EXPECT_EQ(encoded.find_first_of("/? &=#+\r\n"), std::string::npos);
  EXPECT_EQ(percent_decoded(encoded), all);
  EXPECT_EQ(percent_encoded("aZ0-._~/"), "aZ0-._~%2F");
}

TEST(Target, IsSplitAndDecoded) {
  const std::string text = "/a%20b/c?x=1&y=a+b%26&x=2&flag&=e&&z=";
  const std::optional<Target> target = parse_target(text);
  ASSERT_TRUE(target);
  EXPECT_EQ(target->raw_path, "/a%20b/c");
  EXPECT_EQ(target->path, "/a b/c");
  EXPECT_EQ(target->query,
            (Parameters{{"x", "1"}, {"y", "a b&"}, {"flag", ""}, {"", "e"}, {"z", ""}}));
}

TEST(Target, AcceptsTheAbsoluteForm) {
  EXPECT_EQ(parse_target("http://h:1/p?q")->raw_path, "/p");
  EXPECT_EQ(parse_target("HTTP://h")->raw_path, "/");
  EXPECT_EQ(parse_target("https://h/")->raw_path, "/");
}

TEST(Target, RefusesMalformedText) {
  for (const char* text :
       {"", "*", "a/b", "?x", "ftp://h/", "/%zz", "/a?x=%1", "/a?%=1", "h:80", "http://h?x"}) {
    EXPECT_FALSE(parse_target(text)) << text;
  }
}

}  // namespace
}  // namespace billow::http
