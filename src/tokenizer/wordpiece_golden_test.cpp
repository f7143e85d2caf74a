// Compares with tests/golden/word_piece.json, for texts with words of about the max length.
// tests/golden/make_word_piece_golden.py makes that file with the tokenizers library.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/test_source_dir.h"
#include "tokenizer/escaped_space.h"
#include "tokenizer/sample_vocabularies.h"
#include "tokenizer/settings.h"

namespace billow::tokenizer {
namespace {

// Turns a line of vocab.txt into the token of a GGUF file.
SampleToken token_of(const std::string& piece) {
  if (piece == "[UNK]") return {piece, TokenType::kUnknown};
  if (piece.size() > 2 && piece.front() == '[') return {piece, TokenType::kControl};
  if (piece.size() > 2 && piece.starts_with("##")) return {piece.substr(2)};
  return {std::string(kEscapedSpace) + piece};
}

Tokenizer tokenizer_of(const Json& golden) {
  std::vector<SampleToken> tokens;
  for (const Json& piece : golden.at("pieces"))
    tokens.push_back(token_of(piece.get<std::string>()));
  gguf::Writer writer = sample_word_piece();
  set_tokens(writer, tokens);
  writer.set_bool("tokenizer.ggml.normalizer.lowercase", golden.at("lowercase").get<bool>());
  writer.set_bool("tokenizer.ggml.normalizer.strip_accents",
                  golden.at("strip_accents").get<bool>());
  if (const auto max = golden.at("max_word_characters").get<uint32_t>(); max != 100)
    writer.set_uint(kMaxWordCharacters, max);
  return load_sample(writer);
}

TEST(WordPieceGolden, LongWordsMatchTheTokenizersLibrary) {
  std::ifstream file(source_dir() + "/tests/golden/word_piece.json");
  const Json cases = Json::parse(file);
  ASSERT_FALSE(cases.empty());
  for (const Json& golden : cases) {
    const Tokenizer tokenizer = tokenizer_of(golden);
    ASSERT_FALSE(golden.at("texts").empty());
    for (const Json& one : golden.at("texts")) {
      const auto text = one.at("text").get<std::string>();
      EXPECT_EQ(tokenizer.encode(text, {.add_special = false}),
                one.at("ids").get<std::vector<TokenId>>())
          << golden.at("max_word_characters") << " " << text;
    }
  }
}

}  // namespace
}  // namespace billow::tokenizer
