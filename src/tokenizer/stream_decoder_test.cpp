#include "tokenizer/stream_decoder.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/sample_vocabularies.h"

namespace billow::tokenizer {
namespace {

TEST(StreamDecoder, HoldsBackTheBytesOfAnUnfinishedCharacter) {
  // Tokens 0 to 255 of the sample are the bytes.
  const Tokenizer tokenizer = load_sample(sample_bpe());
  StreamDecoder stream(tokenizer);
  EXPECT_EQ(stream.push('a'), "a");
  EXPECT_EQ(stream.push(0xF0), "");
  EXPECT_EQ(stream.push(0x9F), "");
  EXPECT_EQ(stream.push(0x98), "");
  EXPECT_EQ(stream.n_pending_bytes(), 3U);
  EXPECT_EQ(stream.push(0x80), "😀");
  EXPECT_EQ(stream.n_pending_bytes(), 0U);
  EXPECT_EQ(stream.finish(), "");
}

TEST(StreamDecoder, ReplacesUnfinishedCharacters) {
  const Tokenizer tokenizer = load_sample(sample_bpe());
  StreamDecoder stream(tokenizer);
  EXPECT_EQ(stream.push(0xE2), "");
  EXPECT_EQ(stream.push(0x82), "");
  EXPECT_EQ(stream.finish(), "\uFFFD\uFFFD");
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(stream.push(0xE2), "");
  EXPECT_EQ(stream.push('x'), "\uFFFDx");
  EXPECT_EQ(stream.push(0x80), "\uFFFD");
}

TEST(StreamDecoder, RendersControlTokensOnlyOnRequest) {
  const Tokenizer tokenizer = load_sample(sample_bpe());
  const TokenId end = tokenizer.find("<|im_end|>");
  EXPECT_EQ(StreamDecoder(tokenizer).push(end), "");
  EXPECT_EQ(StreamDecoder(tokenizer, {.render_special = true}).push(end), "<|im_end|>");
}

TEST(StreamDecoder, StripsTheFirstSpaceOnRequest) {
  const Tokenizer tokenizer = load_sample(sample_spm());
  const TokenId hello = tokenizer.find("▁hello");
  StreamDecoder stream(tokenizer, {.strip_leading_space = true});
  EXPECT_EQ(stream.push(hello), "hello");
  EXPECT_EQ(stream.push(hello), " hello");
  EXPECT_EQ(StreamDecoder(tokenizer).push(hello), " hello");
}

TEST(StreamDecoder, IdOutOfRangeThrowsAndChangesNothing) {
  const Tokenizer tokenizer = load_sample(sample_bpe());
  StreamDecoder stream(tokenizer);
  EXPECT_EQ(stream.push(0xC3), "");
  EXPECT_THROW(stream.push(tokenizer.n_tokens()), Error);
  EXPECT_EQ(stream.push(0xA9), "é");
}

TEST(StreamDecoder, PiecesAreValidAndFormTheText) {
  const Tokenizer tokenizers[] = {load_sample(sample_bpe()), load_sample(sample_spm())};
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (size_t n = random() % 20; n > 0; --n) {
      char32_t c = static_cast<char32_t>(random() % (random() % 2 == 0 ? 0x500 : 0x110000));
      if (c >= 0xD800 && c < 0xE000) c = U'😀';
      if (c != 0x2581) utf8::append(text, c);
    }
    for (const Tokenizer& tokenizer : tokenizers) {
      StreamDecoder stream(tokenizer, {.strip_leading_space = tokenizer.add_space_prefix()});
      std::string out;
      for (const TokenId id : tokenizer.encode(text, {.add_special = false})) {
        const std::string piece = stream.push(id);
        ASSERT_TRUE(utf8::is_valid(piece));
        out += piece;
      }
      ASSERT_EQ(out + stream.finish(), text);
    }
  }
}

}  // namespace
}  // namespace billow::tokenizer
