#include "base/suggestion.h"

#include <gtest/gtest.h>

namespace billow {
namespace {

const std::vector<std::string> kWords = {"serve", "show",   "stop",         "list",
                                         "run",   "runner", "--temperature"};

TEST(Suggestion, EditDistanceCountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("lsit", "list"), 1u) << "a swap is one edit";
  EXPECT_EQ(edit_distance("serv", "serve"), 1u);
}

TEST(Suggestion, DistanceIsSymmetric) {
  for (const std::string& a : kWords)
    for (const std::string& b : kWords) EXPECT_EQ(edit_distance(a, b), edit_distance(b, a));
}

TEST(Suggestion, FindsSimilarWords) {
  EXPECT_EQ(similar_words("serv", kWords), std::vector<std::string>{"serve"});
  EXPECT_EQ(similar_words("lst", kWords), std::vector<std::string>{"list"});
  EXPECT_EQ(similar_words("LIST", kWords), std::vector<std::string>{"list"});
  EXPECT_EQ(similar_words("--temperture", kWords), std::vector<std::string>{"--temperature"});
  EXPECT_EQ(similar_words("--temp", kWords), std::vector<std::string>{"--temperature"});
  EXPECT_TRUE(similar_words("banana", kWords).empty());
  EXPECT_TRUE(similar_words("", kWords).empty());
  EXPECT_TRUE(similar_words("-x", std::vector<std::string>{"-h"}).empty());
  EXPECT_TRUE(similar_words(std::string(1000, 'x'), kWords).empty());
}

TEST(Suggestion, TheSentenceNamesTheWords) {
  EXPECT_EQ(did_you_mean("serv", kWords), "; did you mean 'serve'?");
  EXPECT_EQ(did_you_mean("stow", kWords), "; did you mean 'stop' or 'show'?");
  EXPECT_EQ(did_you_mean("banana", kWords), "");
}

}  // namespace
}  // namespace billow
