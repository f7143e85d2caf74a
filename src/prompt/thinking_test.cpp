#include "prompt/thinking.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace billow::prompt {
namespace {

std::string tags_of(const std::string& source) {
  const auto tags = infer_thinking_tags(GoTemplate(source));
  return tags ? tags->open + "|" + tags->close : "";
}

TEST(Thinking, TagsAreTheTextsAroundTheThinkingOfAMessage) {
  EXPECT_EQ(tags_of("{{ range .Messages }}{{ if .Thinking }}<think>\n{{ .Thinking }}\n</think>\n"
                    "{{ end }}{{ .Content }}{{ end }}"),
            "<think>|</think>");
  EXPECT_EQ(tags_of("{{ range $i, $m := $.Messages }}{{ $x := 1 }}{{ if $m.Thinking -}}\n"
                    "[T]{{ $m.Thinking }}[/T]{{ end }}{{ end }}"),
            "[T]|[/T]");
  EXPECT_EQ(tags_of("{{ range .Messages }}{{ with .Thinking }}<t>{{ . }}</t>{{ end }}{{ end }}"),
            "<t>|</t>");
}

TEST(Thinking, NoTagsWithoutSuchABlock) {
  EXPECT_EQ(tags_of("{{ range .Messages }}{{ .Content }}{{ end }}"), "");
  EXPECT_EQ(tags_of("<think>{{ .Thinking }}</think>{{ range .Messages }}{{ end }}"), "");
  EXPECT_EQ(tags_of("{{ range .Messages }}{{ if .Thinking }}{{ .Thinking }}</t>{{ end }}{{ end }}"),
            "");
  EXPECT_EQ(
      tags_of("{{ range .Messages }}{{ range .Tools }}<t>{{ .Thinking }}</t>{{ end }}{{ end }}"),
      "");
  EXPECT_EQ(tags_of("{{ range .Messages }}a{{ if .Thinking }}x{{ end }}b{{ end }}"), "");
}

TEST(Thinking, APromptMayEndInIt) {
  const ThinkingTags tags{"<think>", "</think>"};
  EXPECT_TRUE(ends_in_thinking("x<think>", tags));
  EXPECT_TRUE(ends_in_thinking("x<think>\n\n", tags));
  EXPECT_FALSE(ends_in_thinking("x<think></think>\n", tags));
  EXPECT_FALSE(ends_in_thinking("", tags));
}

void append(ThinkingText& all, const ThinkingText& more) {
  all.thinking += more.thinking;
  all.content += more.content;
}

ThinkingText scanned(const std::vector<std::string>& chunks, bool is_open) {
  ThinkingScanner scanner({"<think>", "</think>"}, is_open);
  ThinkingText all;
  for (const std::string& chunk : chunks) append(all, scanner.add(chunk));
  append(all, scanner.finish());
  return all;
}

struct Sample {
  std::string text;
  std::string thinking;
  std::string content;
  bool is_open = false;
};

const std::vector<Sample> kSamples{
    {"", "", ""},
    {"  ", "", "  "},
    {" a <think>b</think>", "", " a <think>b</think>"},
    {"\n <think>\n a b </think>\n\n c </think>", "a b ", "c </think>"},
    {"<think>a</thin</think>b", "a</thin", "b"},
    {"<think></think>\n", "", ""},
    {"<think>a </thi", "a </thi", ""},
    {" <thi", "", " <thi"},
    {"<thinkx", "", "<thinkx"},
    {"\na</think> b", "a", "b", true},
    {"<think>a</think>", "<think>a", "", true},
    {"<think>é</think>ä", "é", "ä"},
};

TEST(Thinking, IsTakenOutOfAnswers) {
  for (const Sample& sample : kSamples) {
    const ThinkingText out = scanned({sample.text}, sample.is_open);
    EXPECT_EQ(out.thinking, sample.thinking) << sample.text;
    EXPECT_EQ(out.content, sample.content) << sample.text;
  }
}

TEST(Thinking, AnyCutIntoChunksGivesTheSame) {
  for (const Sample& sample : kSamples) {
    const size_t n = sample.text.size();
    for (size_t i = 0; i <= n; ++i) {
      for (size_t j = i; j <= n; ++j) {
        const std::vector<std::string> chunks{sample.text.substr(0, i),
                                              sample.text.substr(i, j - i), sample.text.substr(j)};
        const ThinkingText out = scanned(chunks, sample.is_open);
        ASSERT_EQ(out.thinking, sample.thinking) << sample.text << ", cut at " << i << ", " << j;
        ASSERT_EQ(out.content, sample.content) << sample.text << ", cut at " << i << ", " << j;
      }
    }
    std::vector<std::string> bytes;
    for (const char byte : sample.text) bytes.emplace_back(1, byte);
    EXPECT_EQ(scanned(bytes, sample.is_open).content, sample.content);
  }
}

TEST(Thinking, WhatIsCertainComesAtOnce) {
  ThinkingScanner scanner({"<think>", "</think>"});
  EXPECT_EQ(scanner.add("<think>abc </").thinking, "abc ");
  EXPECT_EQ(scanner.add("x").thinking, "</x");
  EXPECT_EQ(scanner.add("</think> y").content, "y");
}

}  // namespace
}  // namespace billow::prompt
