#include "registry/docker_login.h"

#include <gtest/gtest.h>

namespace billow::registry {
namespace {

TEST(DockerLogin, IsFoundByHost) {
  constexpr const char* kText = R"({"auths":{"a.example":{"auth":"dTpw"},
    "https://b.example:5000/v1/":{"auth":"bmFtZTpwYXNz"},"c":{},"d":{"auth":"bm8gY29sb24="},
    "e":{"auth":"!"},"f":7},"credsStore":"secret"})";
  EXPECT_EQ(docker_login(kText, "a.example"), "dTpw");
  EXPECT_EQ(docker_login(kText, "b.example:5000"), "bmFtZTpwYXNz");
  for (const char* host : {"b.example", "c", "d", "e", "f", "", "a.example:443"})
    EXPECT_EQ(docker_login(kText, host), "") << host;
  for (const char* text : {"", "[]", "{}", R"({"auths":[]})", R"({"auths":{"a":null}})", "\xff"})
    EXPECT_EQ(docker_login(text, "a"), "") << text;
}

}  // namespace
}  // namespace billow::registry
