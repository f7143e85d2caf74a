#include "tokenizer/token_roles.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tokenizer/sample_vocabularies.h"

namespace billow::tokenizer {
namespace {

// Returns a tokenizer for a vocabulary of these texts, all of one type, without keys for roles.
Tokenizer load(const std::vector<std::string>& texts, TokenType type = TokenType::kControl) {
  std::vector<SampleToken> tokens = {{"a"}};
  for (const std::string& text : texts) tokens.push_back({text, type});
  gguf::Writer writer;
  writer.set_string("tokenizer.ggml.model", "gpt2");
  writer.set_string("tokenizer.ggml.pre", "qwen2");
  set_tokens(writer, tokens);
  writer.set_strings("tokenizer.ggml.merges", std::vector<std::string>{});
  return load_sample(writer);
}

bool ends(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.is_end_of_generation(tokenizer.find(text));
}

TEST(TokenRoles, RecognisesEndTokensByText) {
  const Tokenizer tokenizer =
      load({"<|endoftext|>", "<|im_end|>", "<|im_start|>", "[e~[", "<｜end▁of▁sentence｜>"});
  EXPECT_TRUE(ends(tokenizer, "<|im_end|>"));
  EXPECT_TRUE(ends(tokenizer, "<|endoftext|>"));
  EXPECT_TRUE(ends(tokenizer, "[e~["));
  EXPECT_TRUE(ends(tokenizer, "<｜end▁of▁sentence｜>"));
  EXPECT_FALSE(ends(tokenizer, "<|im_start|>"));
  EXPECT_FALSE(ends(tokenizer, "a"));
  EXPECT_EQ(tokenizer.text(tokenizer.eot()), "<|im_end|>");
}

TEST(TokenRoles, EndTokensOfAnotherTypeBecomeControlTokens) {
  const Tokenizer tokenizer = load({"<end_of_turn>", "<b>"}, TokenType::kUserDefined);
  EXPECT_TRUE(tokenizer.is_control(tokenizer.find("<end_of_turn>")));
  EXPECT_FALSE(tokenizer.is_control(tokenizer.find("<b>")));
}

TEST(TokenRoles, RecognisesFillInTheMiddleTokensByText) {
  const Tokenizer tokenizer = load({"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>",
                                    "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"});
  const TokenRoles& roles = tokenizer.roles();
  EXPECT_EQ(tokenizer.text(roles.fim_prefix), "<|fim_prefix|>");
  EXPECT_EQ(tokenizer.text(roles.fim_suffix), "<|fim_suffix|>");
  EXPECT_EQ(tokenizer.text(roles.fim_middle), "<|fim_middle|>");
  EXPECT_TRUE(ends(tokenizer, "<|fim_pad|>"));
  EXPECT_TRUE(ends(tokenizer, "<|repo_name|>"));
  EXPECT_TRUE(ends(tokenizer, "<|file_sep|>"));
  EXPECT_FALSE(ends(tokenizer, "<|fim_prefix|>"));
}

TEST(TokenRoles, EndOfAChannelDoesNotEndTheReply) {
  EXPECT_TRUE(ends(load({"<|end|>"}), "<|end|>"));
  const Tokenizer harmony =
      load({"<|end|>", "<|return|>", "<|call|>", "<|channel|>", "<|message|>"});
  EXPECT_FALSE(ends(harmony, "<|end|>"));
  EXPECT_TRUE(ends(harmony, "<|return|>"));
  EXPECT_TRUE(ends(harmony, "<|call|>"));
  EXPECT_EQ(harmony.type(harmony.find("<|end|>")), TokenType::kUserDefined);
  EXPECT_EQ(harmony.piece(harmony.find("<|channel|>")), "<|channel|>");
  EXPECT_EQ(harmony.piece(harmony.find("<|return|>")), "");
}

TEST(TokenRoles, ToolResponseTokenReplacesSAsEnd) {
  EXPECT_TRUE(ends(load({"</s>"}), "</s>"));
  const Tokenizer tokenizer = load({"</s>", "<|tool_response>"});
  EXPECT_FALSE(ends(tokenizer, "</s>"));
  EXPECT_TRUE(ends(tokenizer, "<|tool_response>"));
}

// Gemma 1 to 3 have the tags of HTML as plain tokens.
TEST(TokenRoles, TagOfHtmlDoesNotEndTheReply) {
  const auto load_with = [](TokenType type, TokenId eos) {
    gguf::Writer writer;
    writer.set_string("tokenizer.ggml.model", "gpt2");
    writer.set_string("tokenizer.ggml.pre", "qwen2");
    set_tokens(writer, {{"a"}, {"<eos>", TokenType::kControl}, {"</s>", type}});
    writer.set_strings("tokenizer.ggml.merges", std::vector<std::string>{});
    writer.set_uint("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(eos));
    return load_sample(writer);
  };
  const Tokenizer gemma = load_with(TokenType::kUserDefined, 1);
  EXPECT_FALSE(ends(gemma, "</s>"));
  EXPECT_FALSE(gemma.is_control(2));
  EXPECT_TRUE(ends(gemma, "<eos>"));
  EXPECT_TRUE(ends(load_with(TokenType::kControl, 1), "</s>"));
  EXPECT_TRUE(ends(load_with(TokenType::kUserDefined, 2), "</s>"));
}

TEST(TokenRoles, UsesDefaultsOfTheKindWithoutKeys) {
  const Tokenizer spm = load_sample(sample_spm());
  EXPECT_EQ(spm.bos(), 1);
  EXPECT_EQ(spm.eos(), 2);
  EXPECT_EQ(spm.roles().unknown, 0);
  EXPECT_TRUE(spm.add_bos());
  EXPECT_FALSE(spm.add_eos());
  const Tokenizer unigram = load_sample(sample_unigram());
  EXPECT_EQ(unigram.bos(), kNoToken);
  EXPECT_EQ(unigram.eos(), 1);
  EXPECT_TRUE(unigram.add_eos());
  // The default ids of BERT are out of range for this small vocabulary.
  const Tokenizer bert = load_sample(sample_word_piece());
  EXPECT_EQ(bert.bos(), 2);
  EXPECT_EQ(bert.roles().separator, 3);
}

}  // namespace
}  // namespace billow::tokenizer
