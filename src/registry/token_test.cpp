#include "registry/token.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace billow::registry {
namespace {

TEST(Realm, IsTrustedOnHostsOfTheRegistry) {
  constexpr const char* kRegistry = "https://registry.example.com/v2/a/b/manifests/latest";
  for (const char* realm :
       {"https://registry.example.com/token", "https://REGISTRY.example.com:444/token?x=y",
        "https://auth.example.com/token", "https://example.com/token",
        "https://a.registry.example.com/", "https://a.b.example.com"}) {
    EXPECT_TRUE(is_trusted_realm(realm, kRegistry)) << realm;
  }
  for (const char* realm :
       {"http://registry.example.com/token", "https://example.org/token", "https://com/token",
        "https://evilexample.com/", "https://registry.example.com.evil.org/",
        "https://registry.example.com@evil.org/", "https://evil.org\\.example.com/", "https://",
        "ftp://registry.example.com/", "registry.example.com", "", "/token",
        "https://evil.org?.example.com", "https://evil.org#.example.com"}) {
    EXPECT_FALSE(is_trusted_realm(realm, kRegistry)) << realm;
  }
  EXPECT_FALSE(is_trusted_realm("https://other.com/token", "https://example.com/v2/"))
      << "a parent of one name is not trusted";
  EXPECT_TRUE(is_trusted_realm("https://auth.example.com/token", "https://example.com/v2/"));
}

TEST(Realm, IsTrustedOnlyAtTheSameAddress) {
  EXPECT_TRUE(is_trusted_realm("http://127.0.0.1:5001/token", "http://127.0.0.1:5000/v2/"));
  EXPECT_TRUE(is_trusted_realm("https://127.0.0.1:5001/token", "http://127.0.0.1:5000/v2/"));
  EXPECT_FALSE(is_trusted_realm("http://127.0.0.2/token", "http://127.0.0.1:5000/v2/"));
  EXPECT_FALSE(is_trusted_realm("http://10.127.0.0.1/token", "http://127.0.0.1:5000/v2/"));
  EXPECT_TRUE(is_trusted_realm("http://[::1]:1/token", "http://[::1]:5000/v2/"));
  EXPECT_FALSE(is_trusted_realm("http://[::2]/token", "http://[::1]:5000/v2/"));
  EXPECT_TRUE(is_trusted_realm("http://localhost:1/token", "http://localhost:5000/v2/"));
}

TEST(TokenRequest, HasTheSignatureThatRegistriesExpect) {
  const IdentityKey key = IdentityKey::make();
  const Challenge challenge = parse_challenges(
      R"(Bearer realm="https://r.example/token",service="a b",scope="repository:x/y:pull repository:z:push")")
      [0];
  const TokenRequest request = token_request(challenge, key, "n0nce", 1700000000);
  EXPECT_EQ(request.url,
            "https://r.example/token?nonce=n0nce&scope=repository%3Ax%2Fy%3Apull&scope=repository%"
            "3Az%3Apush&service=a%20b&ts=1700000000");
  // The sum of no bytes comes from `printf '' | sha256sum | head -c 64 | base64 -w0`.
  EXPECT_EQ(request.authorization,
            key.public_text() + ":" +
                key.sign("GET," + request.url +
                         ",ZTNiMGM0NDI5OGZjMWMxNDlhZmJmNGM4OTk2ZmI5MjQyN2FlNDFlNDY0OWI5MzRjYTQ5NTk5"
                         "MWI3ODUyYjg1NQ=="));
  const Challenge plain = parse_challenges(R"(Bearer realm="https://r.example/token?a=b")")[0];
  EXPECT_EQ(token_request(plain, key, "n", 1).url,
            "https://r.example/token?a=b&nonce=n&service=&ts=1");
}

TEST(Token, IsParsedFromTheResponse) {
  EXPECT_EQ(parse_token(R"({"token":"abc"})"), "abc");
  EXPECT_EQ(parse_token(R"({"access_token":"abc","expires_in":60})"), "abc");
  EXPECT_EQ(parse_token(R"({"token":"a","access_token":"b"})"), "a");
  for (const char* body : {"", "{}", "[]", "\"a\"", R"({"token":""})", R"({"token":7})",
                           R"({"token":"a\r\nX: y"})", R"({"token":"a b"})"}) {
    EXPECT_THROW(parse_token(body), Error) << body;
  }
}

}  // namespace
}  // namespace billow::registry
