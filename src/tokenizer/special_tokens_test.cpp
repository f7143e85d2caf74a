#include "tokenizer/special_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tokenizer/sample_vocabularies.h"

namespace billow::tokenizer {
namespace {

struct Loaded {
  std::vector<std::byte> bytes;
  gguf::File file;
  Vocabulary vocabulary;
  SpecialTokens special_tokens;

  explicit Loaded(const gguf::Writer& writer)
      : bytes(writer.to_bytes()),
        file(gguf::File::parse(bytes, "sample")),
        vocabulary(file),
        special_tokens(file, vocabulary) {}

  // Returns the fragments with | between them; special tokens are in brackets.
  std::string show(std::string_view text, bool parse_special = true) const {
    std::string out;
    for (const Fragment& fragment : special_tokens.partition(text, parse_special)) {
      if (!out.empty()) out += '|';
      out += fragment.token == kNoToken ? std::string(fragment.text)
                                        : "[" + std::string(vocabulary.text(fragment.token)) + "]";
    }
    return out;
  }
};

gguf::Writer with_tokens(const std::vector<SampleToken>& tokens) {
  gguf::Writer writer;
  set_tokens(writer, tokens);
  return writer;
}

std::vector<SampleToken> control(const std::vector<std::string>& texts) {
  std::vector<SampleToken> tokens;
  for (const std::string& text : texts) tokens.push_back({text, TokenType::kControl});
  return tokens;
}

TEST(SpecialTokens, LongestTokenWinsAnywhere) {
  const Loaded loaded(with_tokens(control({"ab", "bcd", "d"})));
  EXPECT_EQ(loaded.show("xabcdx"), "xa|[bcd]|x");
  EXPECT_EQ(loaded.show("abd"), "[ab]|[d]");
  EXPECT_EQ(loaded.show("ababcd"), "[ab]|a|[bcd]");
}

TEST(SpecialTokens, ShorterTokensMatchInTheRest) {
  const Loaded loaded(with_tokens(control({"aa", "aaa", "aaaaa"})));
  EXPECT_EQ(loaded.show("aaaaaaa"), "[aaaaa]|[aa]");
  EXPECT_EQ(loaded.show("aaaaaaaaa"), "[aaaaa]|[aaa]|a");
}

TEST(SpecialTokens, ParseSpecialDecidesWhichTypesMatch) {
  const Loaded loaded(with_tokens({{"<c>", TokenType::kControl},
                                   {"<u>", TokenType::kUnknown},
                                   {"<d>", TokenType::kUserDefined},
                                   {"<n>", TokenType::kNormal}}));
  EXPECT_EQ(loaded.show("<c><u><d><n>"), "[<c>]|[<u>]|[<d>]|<n>");
  EXPECT_EQ(loaded.show("<c><u><d><n>", false), "<c><u>|[<d>]|<n>");
  EXPECT_EQ(loaded.show(""), "");
}

TEST(SpecialTokens, SomeModelsStripSpacesNextToThem) {
  gguf::Writer phi = with_tokens(control({"<|end|>", "<s>"}));
  phi.set_string("general.name", "Phi-3 mini");
  EXPECT_EQ(Loaded(phi).show(" <|end|> \n a <s> b"), " |[<|end|>]|a |[<s>]| b");
  gguf::Writer jina = with_tokens(control({"<mask>", "<s>"}));
  jina.set_string("tokenizer.ggml.pre", "jina-v2-code");
  EXPECT_EQ(Loaded(jina).show("a \t<mask> b <s>"), "a|[<mask>]| b |[<s>]");
  EXPECT_EQ(Loaded(with_tokens(control({"<mask>"}))).show("a <mask> b"), "a |[<mask>]| b");
}

// A slow version of partition(): cuts out one token after the other, the longest first.
std::string partition_slowly(std::string_view text, const std::vector<std::string>& tokens) {
  // Ids are places in `tokens`. Of tokens with equal length, the first goes first.
  std::multimap<size_t, std::string, std::greater<>> order;
  for (const std::string& token : tokens) order.emplace(token.size(), token);
  struct Part {
    bool special;
    std::string text;
  };
  std::vector<Part> parts = {{false, std::string(text)}};
  for (const auto& [n_bytes, token] : order) {
    std::vector<Part> next;
    for (const Part& part : parts) {
      std::string rest = part.text;
      size_t at = 0;
      while (!part.special && (at = rest.find(token)) != std::string::npos) {
        if (at > 0) next.push_back({false, rest.substr(0, at)});
        next.push_back({true, token});
        rest.erase(0, at + token.size());
      }
      if (!rest.empty()) next.push_back({part.special, rest});
    }
    parts = next;
  }
  std::string out;
  for (const Part& part : parts) {
    if (!out.empty()) out += '|';
    out += part.special ? "[" + part.text + "]" : part.text;
  }
  return out;
}

TEST(SpecialTokens, PartitionMatchesASlowVersionOnRandomTexts) {
  std::mt19937 random(3);
  const auto word = [&random](size_t n) {
    std::string text;
    while (text.size() < n) text.push_back("abc"[random() % 3]);
    return text;
  };
  for (int round = 0; round < 500; ++round) {
    std::vector<std::string> tokens;
    while (tokens.size() < 6) {
      const std::string token = word(1 + random() % 4);
      if (std::find(tokens.begin(), tokens.end(), token) == tokens.end()) tokens.push_back(token);
    }
    const Loaded loaded(with_tokens(control(tokens)));
    const std::string text = word(1 + random() % 30);
    ASSERT_EQ(loaded.show(text), partition_slowly(text, tokens));
  }
}

}  // namespace
}  // namespace billow::tokenizer
