#include "api/embed_tokens.h"

#include <gtest/gtest.h>

#include "http/status.h"
#include "tokenizer/sample_vocabularies.h"

namespace billow::api {
namespace {

using Ids = std::vector<int32_t>;
using enum Truncation;

// Returns a vocabulary in which each letter is a token. Texts get <bos> and <eos>.
tokenizer::Tokenizer bracketed() {
  gguf::Writer writer = tokenizer::sample_bpe();
  writer.set_bool("tokenizer.ggml.add_bos_token", true);
  writer.set_bool("tokenizer.ggml.add_eos_token", true);
  return tokenizer::load_sample(writer);
}

std::string shown(const tokenizer::Tokenizer& tokenizer, const Ids& tokens) {
  return tokenizer.decode(tokens, {.render_special = true});
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
    return "none";
  } catch (const http::StatusError& error) {
    return std::to_string(error.status()) + " " + error.what();
  }
}

TEST(EmbedTokens, SV_3_TruncationKeepsSpecialTokens) {
  const auto tokenizer = bracketed();
  EXPECT_FALSE(text_tokens(tokenizer, "ab", 4, kRight).is_cut) << "it just fits";
  const EmbedTokens right = text_tokens(tokenizer, "abcdef", 4, kRight);
  EXPECT_TRUE(right.is_cut);
  EXPECT_EQ(shown(tokenizer, right.tokens), "<bos>ab<eos>");
  EXPECT_EQ(shown(tokenizer, text_tokens(tokenizer, "abcdef", 4, kLeft).tokens), "<bos>ef<eos>");
  EXPECT_EQ(text_tokens(tokenizer, "ab", 4, kNone).tokens.size(), 4u);
  EXPECT_EQ(refusal([&] { text_tokens(tokenizer, "abcdef", 7, kNone); }),
            "400 the input length exceeds the context length (8 of 7 tokens)");
  for (const size_t limit : {size_t{0}, size_t{1}, size_t{2}})
    EXPECT_THROW(text_tokens(tokenizer, "abcdef", limit, kRight), http::StatusError);
}

TEST(EmbedTokens, TruncatesIdsWithoutAddingTokens) {
  const auto tokenizer = bracketed();
  const Ids whole = tokenizer.encode("abcdef");
  EXPECT_EQ(given_tokens(tokenizer, whole, 9, kNone).tokens, whole);
  EXPECT_EQ(shown(tokenizer, given_tokens(tokenizer, whole, 3, kLeft).tokens), "<bos>f<eos>");
  const Ids bare = tokenizer.encode("abcdef", {.add_special = false});
  EXPECT_EQ(shown(tokenizer, given_tokens(tokenizer, bare, 2, kRight).tokens), "ab");
  EXPECT_EQ(shown(tokenizer, given_tokens(tokenizer, bare, 2, kLeft).tokens), "ef");
  EXPECT_EQ(refusal([&] { given_tokens(tokenizer, {-1}, 9, kRight); }),
            "400 token id -1 is not in the vocabulary of 272 tokens");
}

TEST(EmbedTokens, SV_11_PairsHaveTheFormOfTraining) {
  const auto word_piece = tokenizer::load_sample(tokenizer::sample_word_piece());
  const EmbedTokens bert = pair_tokens(word_piece, {7, 8}, {9}, 100, kRight);
  EXPECT_EQ(bert.tokens, (Ids{2, 7, 8, 3, 9, 3})) << "[CLS] first [SEP] second [SEP]";
  EXPECT_EQ(bert.n_first, 4u);
  const auto other = bracketed();
  const EmbedTokens roberta = pair_tokens(other, {'a'}, {'b'}, 100, kRight);
  EXPECT_EQ(roberta.tokens, (Ids{other.bos(), 'a', other.eos(), other.eos(), 'b', other.eos()}));
  EXPECT_EQ(roberta.n_first, 3u);
  EXPECT_FALSE(roberta.is_cut);
}

TEST(EmbedTokens, TruncatesTheLongerTextOfAPairFirst) {
  const auto tokenizer = tokenizer::load_sample(tokenizer::sample_word_piece());
  const Ids longer = {5, 6, 7, 8, 9, 10, 11, 12};
  EXPECT_EQ(pair_tokens(tokenizer, {17}, longer, 7, kRight).tokens, (Ids{2, 17, 3, 5, 6, 7, 3}));
  EXPECT_EQ(pair_tokens(tokenizer, {17}, longer, 7, kLeft).tokens, (Ids{2, 17, 3, 10, 11, 12, 3}));
  EXPECT_EQ(pair_tokens(tokenizer, longer, {17}, 7, kRight).tokens, (Ids{2, 5, 6, 7, 3, 17, 3}));
  const EmbedTokens both = pair_tokens(tokenizer, longer, longer, 8, kRight);
  EXPECT_EQ(both.tokens, (Ids{2, 5, 6, 3, 5, 6, 7, 3}));
  EXPECT_EQ(both.n_first, 4u);
  EXPECT_TRUE(both.is_cut);
  EXPECT_EQ(pair_tokens(tokenizer, longer, longer, 19, kNone).tokens.size(), 19u);
  EXPECT_EQ(refusal([&] { pair_tokens(tokenizer, longer, longer, 18, kNone); }),
            "400 the input length exceeds the context length (19 of 18 tokens)");
  EXPECT_THROW(pair_tokens(tokenizer, longer, longer, 3, kRight), http::StatusError);
}

TEST(EmbedTokens, TruncatesOnlyTheDocumentInATemplate) {
  const auto tokenizer = bracketed();
  const std::string text = "<bos>q={query},d={document}<eos>";
  const auto made = [&](const char* query, const char* document, size_t limit, Truncation how) {
    return rerank_tokens(tokenizer, text, query, document, limit, how);
  };
  const EmbedTokens whole = made("a", "bcd", 20, kNone);
  EXPECT_EQ(shown(tokenizer, whole.tokens), "<bos>q=a,d=bcd<eos>");
  EXPECT_EQ(whole.tokens,
            tokenizer.encode("<bos>q=a,d=bcd<eos>", {.add_special = false, .parse_special = true}));
  EXPECT_EQ(whole.n_first, 0u) << "it has one segment";
  EXPECT_FALSE(whole.is_cut);
  const size_t n = whole.tokens.size();
  EXPECT_EQ(shown(tokenizer, made("a", "bcd", n - 2, kRight).tokens), "<bos>q=a,d=b<eos>");
  EXPECT_EQ(shown(tokenizer, made("a", "bcd", n - 2, kLeft).tokens), "<bos>q=a,d=d<eos>");
  EXPECT_TRUE(made("a", "bcd", n - 3, kRight).is_cut);
  EXPECT_EQ(refusal([&] { made("a", "bcd", n - 4, kRight); }),
            "400 input after truncation exceeds maximum context length");
  EXPECT_EQ(refusal([&] { made("a", "bcd", n - 1, kNone); }),
            "400 the input length exceeds the context length (" + std::to_string(n) + " of " +
                std::to_string(n - 1) + " tokens)");
  // Inserted text is not searched for placeholders.
  EXPECT_EQ(shown(tokenizer, made("{document}", "{query}", 90, kNone).tokens),
            "<bos>q={document},d={query}<eos>");
}

}  // namespace
}  // namespace billow::api
