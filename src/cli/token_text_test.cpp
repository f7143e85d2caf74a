#include "cli/token_text.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "tokenizer/sample_vocabularies.h"

namespace billow::cli {
namespace {

tokenizer::Tokenizer sample_tokenizer() {
  const std::vector<std::byte> bytes = tokenizer::sample_bpe().to_bytes();
  return tokenizer::Tokenizer::load(gguf::File::parse(bytes, "sample.gguf"));
}

TEST(TokenText, ParsesIdsWithAnySeparator) {
  const tokenizer::Tokenizer tokenizer = sample_tokenizer();
  for (const char* words : {"1,5,9", "1 5 9", "[1, 5,\n9]", " 1\t5,,9 "}) {
    std::vector<tokenizer::TokenId> ids = {7};
    append_token_ids(words, tokenizer, ids);
    EXPECT_EQ(ids, (std::vector<tokenizer::TokenId>{7, 1, 5, 9})) << words;
  }
  std::vector<tokenizer::TokenId> none;
  append_token_ids(" [,] ", tokenizer, none);
  EXPECT_TRUE(none.empty());
}

TEST(TokenText, NamesInvalidIdsAndTheValidRange) {
  const tokenizer::Tokenizer tokenizer = sample_tokenizer();
  const std::string range = "(0 to " + std::to_string(tokenizer.n_tokens() - 1) + ")";
  for (const std::string word :
       {"-1", "1.5", "x", "4711", "99999999999999999999", "0x10", "+1", "\x1bm"}) {
    std::vector<tokenizer::TokenId> ids;
    try {
      append_token_ids("3 " + word, tokenizer, ids);
      FAIL() << word;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()),
                "'" + visible_text(word) + "' is not a token id " + range);
    }
  }
}

TEST(TokenText, ShowsPiecesOnOneLine) {
  EXPECT_EQ(visible_text("a\nb\tc\\d\r\x1b\xff\u00e9\u009b"),
            "a\\nb\\tc\\\\d\\x0D\\x1B\\xFF\u00e9\\xC2\\x9B");
  EXPECT_EQ(json_piece("\u00e9").dump(), "\"\u00e9\"");
  EXPECT_EQ(json_piece("\xc3").dump(), "[195]");
}

}  // namespace
}  // namespace billow::cli
