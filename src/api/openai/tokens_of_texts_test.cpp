#include "api/openai/tokens_of_texts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace billow::api::openai {
namespace {

struct Text {
  const char* text;
  const char* tokens;  // expected, each with "|" after it
};
struct Case {
  std::vector<std::string> tokens;
  std::vector<Text> texts;
};

std::string joined(const std::vector<Logprob>& tokens) {
  std::string text;
  for (const Logprob& token : tokens) text += token.bytes + "|";
  return text;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {{"<think>", "a", " hm", "</think>", "a", " b", " <", "c", ""},
       {{"a hm", "a| hm|"}, {"a b <c", "a| b| <|c|"}}},
      // "hi" is also a part of a marker, and blanks around a marker belong to no text.
      {{"<think>", "ok", "</think>", "\n\n", "hi", " there", "\n"},
       {{"ok", "ok|"}, {"hi", "hi|"}, {" there", " there|"}}},
      // Two messages of gpt-oss are one text.
      {{"<|channel|>", "analysis", "<|message|>", "I", " see", "<|end|>", "<|start|>", "assistant",
        "<|channel|>", "final", "<|message|>", "A", " final", " word", "<|return|>"},
       {{"I see", "I| see|"}, {"A final word", "A| final| word|"}}},
      {{"I", " will.", "<|end|>", "<|start|>", "assistant", "final", "<|message|>", "The", " end"},
       {{"I will.The end", "I| will.|The| end|"}}},
      // A text that the tokens do not have takes none away.
      {{"<t>", "{\"x\"", ":1}", "</t>", "So", " be", " it"},
       {{"{\"x\": 1}", ""}, {"So be it", "So| be| it|"}}},
      // A character of two tokens, an invalid byte, and a text that ends within a token.
      {{"\xF0\x9F", "\x98\x80", "!", "\xFF", "ab", "cd\n\n", "ef"},
       {{"\U0001F600!\uFFFD", "\xF0\x9F|\x98\x80|!|\xFF|"},
        {"a", "ab|"},
        {"b", ""},
        {"cd", "cd\n\n|"},
        {"\n\nef", "ef|"}}},
      // The first token ends a marker.
      {{"</", "think", ">Hello", " you", "<", "end"}, {{"Hello you", ">Hello| you|"}}},
      {{" Hello", " world ", "<end>"}, {{"Hello world", " Hello| world |"}}},
  };
  return all;
}

TEST(TokensOfTexts, WholeAnswers) {
  for (const Case& c : cases()) {
    TokensOfTexts tokens;
    for (const std::string& token : c.tokens) tokens.add({{token, -1.0, token, {}}});
    for (const Text& text : c.texts) EXPECT_EQ(joined(tokens.take(text.text)), text.tokens);
  }
}

// Each text comes as soon as its tokens are there.
TEST(TokensOfTexts, Streams) {
  for (const Case& c : cases()) {
    TokensOfTexts tokens;
    size_t n = 0;
    for (const Text& text : c.texts) {
      std::string found;
      const auto is_found = [&] { return !found.empty() || std::string(text.tokens).empty(); };
      const auto n_wanted = std::ranges::count(std::string(text.tokens), '|');
      while (!is_found() && n < c.tokens.size()) {
        tokens.add({{c.tokens[n], -1.0, c.tokens[n], {}}});
        ++n;
        if (n >= static_cast<size_t>(n_wanted)) found = joined(tokens.take(text.text));
      }
      if (!is_found() || n_wanted == 0) found = joined(tokens.take(text.text));
      EXPECT_EQ(found, text.tokens);
    }
  }
}

}  // namespace
}  // namespace billow::api::openai
