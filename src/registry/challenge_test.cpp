#include "registry/challenge.h"

#include <gtest/gtest.h>

#include <random>

namespace billow::registry {
namespace {

// Returns the challenges as text: "bearer{realm=r,scope=s} basic{}".
std::string read(std::string_view value) {
  std::string text;
  for (const Challenge& challenge : parse_challenges(value)) {
    text += (text.empty() ? "" : " ") + challenge.scheme + "{";
    for (const auto& [name, parameter] : challenge.parameters)
      text += (text.back() == '{' ? "" : ",") + name + "=" + parameter;
    text += "}";
  }
  return text;
}

TEST(Challenge, ReadsTheChallengeOfARegistry) {
  const auto challenges = parse_challenges(
      R"(Bearer realm="https://auth.example/token",service="registry.example",scope="repository:a/b:pull,push")");
  ASSERT_EQ(challenges.size(), 1u);
  EXPECT_EQ(challenges[0].scheme, "bearer");
  EXPECT_EQ(challenges[0].parameter("realm"), "https://auth.example/token");
  EXPECT_EQ(challenges[0].parameter("service"), "registry.example");
  EXPECT_EQ(challenges[0].parameter("scope"), "repository:a/b:pull,push");
  EXPECT_EQ(challenges[0].parameter("error"), "");
}

TEST(Challenge, FollowsTheGrammarOfTheStandard) {
  EXPECT_EQ(read(R"(Basic realm="a \"b\" \\c")"), R"(basic{realm=a "b" \c})");
  EXPECT_EQ(read("BEARER Realm = x ,\tSCOPE=\"\""), "bearer{realm=x,scope=}");
  EXPECT_EQ(read(R"(Bearer a="1", Basic realm="r", Negotiate)"),
            "bearer{a=1} basic{realm=r} negotiate{}");
  EXPECT_EQ(read("Negotiate YWJj==, Bearer a=1"), "negotiate{} bearer{a=1}");
  EXPECT_EQ(read("Bearer"), "bearer{}");
  EXPECT_EQ(read(" , ,Bearer a=1,,b=2,"), "bearer{a=1,b=2}");
  EXPECT_EQ(read("Bearer a=1, a=2"), "bearer{a=1}") << "the first one counts";
}

TEST(Challenge, MalformedTextEndsTheList) {
  EXPECT_EQ(read(""), "");
  EXPECT_EQ(read(" ,\t"), "");
  EXPECT_EQ(read("=="), "");
  EXPECT_EQ(read(R"("Bearer" realm=x)"), "");
  EXPECT_EQ(read(R"(Bearer a=1, b="no end)"), R"(bearer{a=1} b{})");
  EXPECT_EQ(read("Bearer a=\"\\"), "bearer{} a{}");
}

TEST(Challenge, SurvivesRandomBytes) {
  std::mt19937 random(7);
  constexpr std::string_view kPieces = "Bearer a=\"\\, \tbasic=/~\x80\n";
  for (int i = 0; i < 20'000; ++i) {
    std::string value;
    for (size_t n = random() % 40; n > 0; --n) value += kPieces[random() % kPieces.size()];
    EXPECT_LE(parse_challenges(value).size(), value.size());
  }
}

}  // namespace
}  // namespace billow::registry
