#include "tokenizer/vocabulary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/file.h"
#include "gguf/writer.h"

namespace billow::tokenizer {
namespace {

// Returns a text of one to three of four letters, so that texts often repeat.
std::string random_text(std::mt19937& random) {
  std::string text;
  const size_t n = 1 + random() % 3;
  for (size_t i = 0; i < n; ++i) text.push_back("abcd"[random() % 4]);
  return text;
}

TEST(Vocabulary, FindAllEqualsFind) {
  std::mt19937 random(7);
  for (const size_t n_tokens : {1u, 63u, 64u, 65u, 300u}) {
    std::vector<std::string> tokens(n_tokens);
    for (std::string& token : tokens) token = random_text(random);
    gguf::Writer writer;
    writer.set_strings("tokenizer.ggml.tokens", tokens);
    const std::vector<std::byte> bytes = writer.to_bytes();
    const Vocabulary vocabulary(gguf::File::parse(bytes, "test"));
    std::vector<std::string> texts(500);
    for (std::string& text : texts) text = random_text(random);
    texts.emplace_back();
    const std::vector<std::string_view> wanted(texts.begin(), texts.end());
    std::vector<TokenId> found(texts.size());
    vocabulary.find_all(wanted, found);
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto first = std::find(tokens.begin(), tokens.end(), texts[i]);
      const TokenId id =
          first == tokens.end() ? kNoToken : static_cast<TokenId>(first - tokens.begin());
      EXPECT_EQ(found[i], id) << texts[i];
      EXPECT_EQ(vocabulary.find(texts[i]), id) << texts[i];
    }
  }
}

}  // namespace
}  // namespace billow::tokenizer
