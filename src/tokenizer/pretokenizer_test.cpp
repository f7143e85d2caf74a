#include "tokenizer/pretokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <set>
#include <string>
#include <vector>

namespace billow::tokenizer {
namespace {

using Words = std::vector<std::string>;

Words split(const PreTokenizer& pre_tokenizer, std::string_view text) {
  Words words;
  size_t begin = 0;
  for (const size_t end : pre_tokenizer.split(text)) {
    words.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  EXPECT_EQ(begin, text.size());
  return words;
}

Words split(std::string_view pre, std::string_view text) {
  const PreTokenizerFamily* family = find_pre_tokenizer_family(pre);
  if (family == nullptr) {
    ADD_FAILURE() << "no family " << pre;
    return {};
  }
  return split(PreTokenizer(*family), text);
}

struct Example {
  const char* pre;
  const char* text;
  Words words;
};

// At least one example per row of the table. It shows how the family differs from others.
const Example kExamples[] = {
    {"default", "Hi, 12345!", {"Hi", ",", " ", "123", "45", "!"}},
    {"default", "x = y", {"x", " ", "=", " y"}},
    {"gpt-2",
     "I'll go  12 3.5 now's\n\n x",
     {"I", "'ll", " go", " ", " 12", " 3", ".", "5", " now", "'s", "\n\n", " x"}},
    {"gpt-2", "IT'S", {"IT", "'", "S"}},
    {"trillion", "a 12", {"a", " 12"}},
    {"roberta-bpe", "a 12", {"a", " 12"}},
    {"starcoder", "a 123", {"a", " ", "1", "2", "3"}},
    {"smollm", "x12 y", {"x", "1", "2", " y"}},
    {"llama-bpe",
     "IT'S 12345 (ok)\n\nx   y",
     {"IT", "'S", " ", "123", "45", " (", "ok", ")\n\n", "x", "  ", " y"}},
    {"llama-bpe", "a \n b\r\n  c", {"a", " \n", " b", "\r\n", " ", " c"}},
    {"dbrx", "don't #tag1234", {"don", "'t", " #", "tag", "123", "4"}},
    {"glm4", "1234", {"123", "4"}},
    {"qwen2", "don'T 123\u00a0x", {"don", "'T", " ", "1", "2", "3", "\u00a0x"}},
    {"stablelm2", "12", {"1", "2"}},
    {"qwen2", "नि", {"न", "ि"}},
    {"qwen35", "नि 12", {"नि", " ", "1", "2"}},
    {"minicpm5", "1234567 a", {"123", "456", "7", " a"}},
    {"gpt-4o",
     "HelloWorld's ПриветМир I'M 1234/\n",
     {"Hello", "World's", " Привет", "Мир", " I'M", " ", "123", "4", "/\n"}},
    {"granite-embed-multi-97m", "नि 1234", {"नि", " ", "123", "4"}},
    {"tekken", "HelloWORLD's 12", {"Hello", "WORLD", "'s", " ", "1", "2"}},
    {"youtu", "abc你好，가나 X12", {"abc", "你好", "，", "가나", " X", "1", "2"}},
    {"tiny_aya", "1234567 1234 12a", {"1", "234", "567", " ", "1", "234", " ", "12", "a"}},
    {"superbpe", "²12 ²1234", {"²12", " ", "²1", "234"}},
    {"tiny_aya", "1234²", {"123", "4²"}},
    {"tiny_aya", "1234x", {"123", "4", "x"}},
    {"deepseek-llm",
     "Hi you. 12345\n\n中文abc",
     {"Hi", " you", ".", " ", "12345", "\n", "\n", "中文", "abc"}},
    {"deepseek-coder", "x = 12; 中文", {"x", " = ", "1", "2", ";", " ", "中文"}},
    {"deepseek-v3",
     "1234 中文かな x#include y",
     {"123", "4", " ", "中文かな", " x", "#include", " y"}},
    {"spark2_5", "12345 a!\n\nb", {"1", "2", "3", "4", "5", " a", "!", "\n", "\n", "b"}},
    {"falcon", "a-b 12345", {"a", "-", "b", " ", "123", "45"}},
    {"bloom", "Hello, world 12!", {"Hello", ",", " world", " 12", "!"}},
    {"poro-chat", "a b", {"a", " b"}},
    {"viking", "ab 12", {"ab", " ", "1", "2"}},
    {"bailingmoe", "it's 12 x\n\n\ny", {"it", "'s", " ", "1", "2", " x", "\n\n\n", "y"}},
    {"seed-coder", "a!!\n\n12", {"a", "!!", "\n\n", "1", "2"}},
    {"superbpe", "one two 1234567", {"one two ", "1", "234", "567"}},
    {"kimi-k2", "Hello中文World 1234", {"Hello", "中文", "World", " ", "123", "4"}},
    {"afmoe", "12345 မြ中文 abc!x", {"12", "345", " ", "မြ中文", " abc", "!x"}},
    {"exaone-moe", "one two 12 x!\n\n", {"one two", " ", "1", "2", " x", "!\n", "\n"}},
    {"jais-2", "a       b", {"a", "    ", "  ", " b"}},
    {"chameleon", "IMGIMGABZ a1\tb", {"IMGIMGABZ", " a", "1", "\t", "b"}},
    {"laguna", "a12\n\n b", {"a", "1", "2", "\n\n", " b"}},
    {"ufakzeka", "Ali'nin 12", {"Ali", "'nin", " ", "1", "2"}},
    {"whitespace", "ab, c\n d", {"ab,", " ", "c", "\n ", "d"}},
    {"gemma4", "a b\n\nc", {"a b", "\n\n", "c"}},
    {"sarvam-moe", "a b\nc", {"a b", "\n", "c"}},
};

TEST(PreTokenizer, SplitsLikeItsFamily) {
  for (const Example& example : kExamples) {
    EXPECT_EQ(split(example.pre, example.text), example.words) << example.pre;
  }
}

TEST(PreTokenizer, EveryFamilyHasAnExample) {
  std::set<const PreTokenizerFamily*> shown;
  for (const Example& example : kExamples) shown.insert(find_pre_tokenizer_family(example.pre));
  for (const PreTokenizerFamily& family : pre_tokenizer_families()) {
    EXPECT_TRUE(shown.contains(&family)) << family.names;
  }
}

TEST(PreTokenizer, FamilyNamesAreUniqueAndMatchWhole) {
  EXPECT_EQ(find_pre_tokenizer_family("qwen"), nullptr);
  EXPECT_EQ(find_pre_tokenizer_family(""), nullptr);
  EXPECT_EQ(find_pre_tokenizer_family("gpt-2 phi-2"), nullptr);
  std::set<std::string> names;
  for (const PreTokenizerFamily& family : pre_tokenizer_families()) {
    std::string_view rest = family.names;
    while (!rest.empty()) {
      const std::string_view name = rest.substr(0, rest.find(' '));
      EXPECT_TRUE(names.insert(std::string(name)).second) << name;
      EXPECT_EQ(find_pre_tokenizer_family(name), &family);
      rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    }
  }
}

TEST(PreTokenizer, UsesUnicodeWhiteSpace) {
  // U+180E and U+200B are not white space; U+0085 and U+3000 are.
  EXPECT_EQ(split("gpt-2", "a\u180e\u3000\u0085b"),
            (Words{"a", "\u180e", "\u3000", "\u0085", "b"}));
  EXPECT_EQ(split("gpt-2", "a \u200bb"), (Words{"a", " \u200b", "b"}));
}

TEST(PreTokenizer, EmptyTextHasNoWords) { EXPECT_TRUE(split("qwen2", "").empty()); }

TEST(PreTokenizer, KeepsInvalidUtf8) {
  // Invalid bytes count as U+FFFD, which is a symbol.
  EXPECT_EQ(split("qwen2", "ab\xFF\xC3 \xE2\x82z"), (Words{"ab", "\xFF\xC3", " \xE2\x82", "z"}));
}

TEST(PreTokenizer, LongRunsTakeLinearTime) {
  const std::string units[] = {"a",     "A",      "1",      " ",    "\n",     "!",  "中",
                               "é",     "\u0301", "'s",     "\t ",  "aA",     "a ", " \n",
                               "한국 ", "1a",     "\u3000", "\xFF", "Aa1 !\n"};
  constexpr size_t kBytes = 1 << 16;
  for (const PreTokenizerFamily& family : pre_tokenizer_families()) {
    const PreTokenizer pre_tokenizer(family);
    for (const std::string& unit : units) {
      for (const char* tail : {"", "x"}) {
        std::string text;
        while (text.size() < kBytes) text += unit;
        text += tail;
        const std::clock_t begin = std::clock();
        const std::vector<size_t> ends = pre_tokenizer.split(text);
        const std::clock_t time = std::clock() - begin;
        ASSERT_EQ(ends.back(), text.size());
        // Linear work takes a few milliseconds. Quadratic work would take several seconds.
        ASSERT_LT(time, CLOCKS_PER_SEC) << family.names << " on " << unit;
      }
    }
  }
}

}  // namespace
}  // namespace billow::tokenizer
