#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/sample_vocabularies.h"

namespace billow::tokenizer {
namespace {

using Ids = std::vector<TokenId>;
using Texts = std::vector<std::string>;

Texts texts_of(const Tokenizer& tokenizer, const Ids& ids) {
  Texts texts;
  for (const TokenId id : ids) texts.emplace_back(tokenizer.text(id));
  return texts;
}

Texts encode(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options = {}) {
  return texts_of(tokenizer, tokenizer.encode(text, options));
}

constexpr EncodeOptions kPlain{.add_special = false};

TEST(Tokenizer, BpeMergesByRank) {
  const Tokenizer tokenizer = load_sample(sample_bpe());
  EXPECT_EQ(encode(tokenizer, "hello", kPlain), Texts{"hello"});
  EXPECT_EQ(encode(tokenizer, " hello world", kPlain), (Texts{"Ġhello", "Ġw", "or", "l", "d"}));
  // "l l" merges before "h e": in "helll", the first two l merge.
  EXPECT_EQ(encode(tokenizer, "helll", kPlain), (Texts{"hell", "l"}));
  // Of equal merges, the leftmost goes first.
  EXPECT_EQ(encode(tokenizer, "aaaaaaa", kPlain), (Texts{"aaaa", "aa", "a"}));
}

TEST(Tokenizer, BpeFallsBackToBytesForAMergeWithoutToken) {
  const Tokenizer tokenizer = load_sample(sample_bpe());
  EXPECT_EQ(encode(tokenizer, "dor", kPlain), (Texts{"d", "o", "r"}));
}

TEST(Tokenizer, BpeTakesWholeWordsIfItsFamilyIgnoresMerges) {
  gguf::Writer writer = sample_bpe("llama-bpe");
  Texts merges = {"h e"};
  writer.set_strings("tokenizer.ggml.merges", merges);
  writer.set_bool("tokenizer.ggml.add_bos_token", false);
  EXPECT_EQ(encode(load_sample(writer), "hello"), Texts{"hello"});
  writer.set_string("tokenizer.ggml.pre", "dbrx");
  EXPECT_EQ(encode(load_sample(writer), "hello"), (Texts{"he", "l", "l", "o"}));
}

TEST(Tokenizer, SpmMergesByScoreAndFallsBackToBytes) {
  const Tokenizer tokenizer = load_sample(sample_spm());
  EXPECT_EQ(encode(tokenizer, "hello"), (Texts{"<s>", "▁hello"}));
  EXPECT_EQ(encode(tokenizer, "é€", kPlain), (Texts{"▁", "é", "<0xE2>", "<0x82>", "<0xAC>"}));
  EXPECT_EQ(encode(tokenizer, "a  b", kPlain), (Texts{"▁", "a", "▁▁", "b"}));
  EXPECT_EQ(encode(tokenizer, "", {}), Texts{"<s>"});
  EXPECT_TRUE(tokenizer.encode("", kPlain).empty());
}

TEST(Tokenizer, CheckCancelsTheWorkBetweenSpecialTokens) {
  struct Enough {};
  const Tokenizer tokenizer = load_sample(sample_spm());
  size_t n_checks = 0;
  size_t n_max = 100;
  const std::function<void()> check = [&] {
    if (++n_checks > n_max) throw Enough();
  };
  const EncodeOptions options{.add_special = false, .check = &check};
  EXPECT_EQ(encode(tokenizer, "a<tool>a", options), encode(tokenizer, "a<tool>a", kPlain));
  EXPECT_EQ(n_checks, 3u);
  n_checks = 0;
  n_max = 2;
  EXPECT_THROW(tokenizer.encode("a<tool>a<tool>a", options), Enough);
  EXPECT_EQ(n_checks, 3u);
}

TEST(Tokenizer, SpmPutsASpaceAfterSpecialTokens) {
  const Tokenizer tokenizer = load_sample(sample_spm());
  EXPECT_EQ(encode(tokenizer, "a<tool>a", kPlain), (Texts{"▁", "a", "<tool>", "▁", "a"}));
  gguf::Writer writer = sample_spm();
  writer.set_bool("tokenizer.ggml.add_space_prefix", false);
  EXPECT_EQ(encode(load_sample(writer), "a<tool>a", kPlain), (Texts{"a", "<tool>", "a"}));
}

TEST(Tokenizer, WordPieceTakesTheLongestPiecesOfEachWord) {
  const Tokenizer tokenizer = load_sample(sample_word_piece());
  EXPECT_EQ(encode(tokenizer, "Unaffable, HELLO!"),
            (Texts{"[CLS]", "▁un", "aff", "able", "▁,", "▁hello", "▁!", "[SEP]"}));
  EXPECT_EQ(encode(tokenizer, "unaffx hello", kPlain), (Texts{"[UNK]", "▁hello"}));
  EXPECT_EQ(encode(tokenizer, "cafés hello天a", kPlain),
            (Texts{"▁cafe", "s", "▁hello", "▁天", "▁a"}));
  EXPECT_EQ(encode(tokenizer, "he\u00adl\u200blo\x01 $12\xFF", kPlain),
            (Texts{"▁hello", "▁$", "▁1", "2"}));
}

TEST(Tokenizer, WordPieceKeepsCaseAndAccentsOnRequest) {
  gguf::Writer writer = sample_word_piece();
  writer.set_bool("tokenizer.ggml.normalizer.lowercase", false);
  EXPECT_EQ(encode(load_sample(writer), "hello Hello café", kPlain),
            (Texts{"▁hello", "[UNK]", "[UNK]"}));
  writer.set_bool("tokenizer.ggml.normalizer.strip_accents", true);
  EXPECT_EQ(encode(load_sample(writer), "café", kPlain), Texts{"▁cafe"});
}

TEST(Tokenizer, RwkvTakesTheLongestTokenFromLeftToRight) {
  const Tokenizer tokenizer = load_sample(sample_rwkv());
  EXPECT_EQ(encode(tokenizer, "hello hello"), (Texts{"hello", " hello"}));
  EXPECT_EQ(encode(tokenizer, "hellhe"), (Texts{"hell", "he"}));
  EXPECT_EQ(encode(tokenizer, "lo wo\n\n\né\xFF"),
            (Texts{"lo wo", "\\n\\n", "\\n", "\\xc3\\xa9", "\\xff"}));
  EXPECT_EQ(encode(tokenizer, "\\x'<s>"), (Texts{"\\\\x", "\\'", "<", "s", ">"}));
  for (const std::string text : {"\\n is no newline\n", "a\tb\r\\\\", "é\xE9 \x00z"})
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  EXPECT_TRUE(tokenizer.is_end_of_generation(0));
}

TEST(Tokenizer, Gemma4MergesRawTextAndKeepsNewlinesWhole) {
  const Tokenizer tokenizer = load_sample(sample_gemma4());
  EXPECT_EQ(encode(tokenizer, "ab ab"), (Texts{"<bos>", "ab", "▁ab"}));
  EXPECT_EQ(encode(tokenizer, "a\n\n\nb\n\n", kPlain), (Texts{"a", "\n\n\n", "b", "\n", "\n"}));
  EXPECT_EQ(encode(tokenizer, "aé€", kPlain), (Texts{"aé", "<0xE2>", "<0x82>", "<0xAC>"}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a b\n€", kPlain)), "a b\n€");
}

TEST(Tokenizer, AddsBosAndEosIfTheFileWantsThem) {
  gguf::Writer writer = sample_bpe();
  EXPECT_EQ(encode(load_sample(writer), "a"), Texts{"a"});
  writer.set_bool("tokenizer.ggml.add_bos_token", true);
  writer.set_bool("tokenizer.ggml.add_eos_token", true);
  const Tokenizer tokenizer = load_sample(writer);
  EXPECT_EQ(encode(tokenizer, "a"), (Texts{"<bos>", "a", "<eos>"}));
  EXPECT_EQ(encode(tokenizer, "a", kPlain), Texts{"a"});
  EXPECT_TRUE(tokenizer.add_bos());
  EXPECT_TRUE(tokenizer.add_eos());
  EXPECT_EQ(load_sample(sample_bpe("llama-bpe")).encode("a").size(), 2U);
}

TEST(Tokenizer, ParsesControlTokensInTextOnlyOnRequest) {
  const Tokenizer tokenizer = load_sample(sample_bpe());
  EXPECT_EQ(encode(tokenizer, "a<|im_end|><tool>", {.parse_special = true}),
            (Texts{"a", "<|im_end|>", "<tool>"}));
  const Ids plain = tokenizer.encode("a<|im_end|><tool>");
  EXPECT_EQ(plain.back(), tokenizer.find("<tool>"));
  EXPECT_EQ(std::count(plain.begin(), plain.end(), tokenizer.find("<|im_end|>")), 0);
  EXPECT_EQ(tokenizer.decode(plain), "a<|im_end|><tool>");
}

TEST(Tokenizer, DecodeRendersOrLeavesOutSpecialTokens) {
  const Tokenizer tokenizer = load_sample(sample_bpe());
  const Ids ids = tokenizer.encode("a<|im_end|>b<tool>", {.parse_special = true});
  EXPECT_EQ(tokenizer.decode(ids), "ab<tool>");
  EXPECT_EQ(tokenizer.decode(ids, {.render_special = true}), "a<|im_end|>b<tool>");
}

TEST(Tokenizer, DecodeRemovesTheSpaceThatEncodingAdded) {
  const Tokenizer tokenizer = load_sample(sample_spm());
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("hello a", kPlain)), "hello a");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(" hello", kPlain)), " hello");
  const Ids with_bos = tokenizer.encode("hello");
  EXPECT_EQ(tokenizer.decode(with_bos, {.remove_special = true}), " hello");
  EXPECT_EQ(tokenizer.decode(with_bos, {.render_special = true}), "<s> hello");
}

TEST(Tokenizer, DecodeCleansSpacesOnRequest) {
  const Tokenizer tokenizer = load_sample(sample_bpe());
  const Ids ids = tokenizer.encode("a ! b , c 's d ' e we 're", kPlain);
  EXPECT_EQ(tokenizer.decode(ids), "a ! b , c 's d ' e we 're");
  EXPECT_EQ(tokenizer.decode(ids, {.clean_spaces = true}), "a! b, c's d'e we're");
}

TEST(Tokenizer, IdsOutOfRangeThrow) {
  const Tokenizer tokenizer = load_sample(sample_bpe());
  for (const TokenId id : {-1, tokenizer.n_tokens(), INT32_MAX, INT32_MIN}) {
    EXPECT_THROW(tokenizer.decode(Ids{id}), Error);
    EXPECT_THROW(tokenizer.piece(id), Error);
    EXPECT_THROW(tokenizer.text(id), Error);
    EXPECT_FALSE(tokenizer.is_end_of_generation(id));
    EXPECT_FALSE(tokenizer.has(id));
  }
}

TEST(Tokenizer, WorksAfterTheFileIsClosed) {
  const Tokenizer tokenizer = [] {
    std::vector<std::byte> bytes = sample_bpe().to_bytes();
    const gguf::File file = gguf::File::parse(bytes, "sample");
    Tokenizer loaded = Tokenizer::load(file);
    std::fill(bytes.begin(), bytes.end(), std::byte{0xEE});
    return loaded;
  }();
  EXPECT_EQ(encode(tokenizer, "hello"), Texts{"hello"});
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("hello €")), "hello €");
}

TEST(Tokenizer, LosslessKindsKeepRandomBytes) {
  const std::vector<Tokenizer> tokenizers = [] {
    std::vector<Tokenizer> all;
    for (const PreTokenizerFamily& family : pre_tokenizer_families()) {
      if ((family.flags & kRawText) != 0) continue;
      all.push_back(
          load_sample(sample_bpe(std::string(family.names.substr(0, family.names.find(' '))))));
    }
    gguf::Writer spm = sample_spm();
    all.push_back(load_sample(spm));
    all.push_back(load_sample(sample_rwkv()));
    return all;
  }();
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (size_t n = random() % 40; n > 0; --n) {
      if (random() % 2 == 0) {
        const char32_t c = static_cast<char32_t>(random() % 0x3100);
        if (c != 0x2581) utf8::append(text, c);
      } else {
        text.push_back(
            " \n\xFF\xE2\x96\x81\x80"
            "aA1'!<\xF0"[random() % 14]);
      }
    }
    if (text.find("\xE2\x96\x81") != std::string::npos) continue;  // SPM reads U+2581 as a space
    for (const Tokenizer& tokenizer : tokenizers) {
      const Ids ids = tokenizer.encode(text, kPlain);
      ASSERT_EQ(tokenizer.decode(ids), text)
          << tokenizer.model() << " " << tokenizer.pre_tokenizer();
    }
  }
}

TEST(Tokenizer, EncodesLongTextsOfOneUnitFast) {
#ifdef NDEBUG
  constexpr size_t kBytes = 1'000'000;
#else  // with sanitizers each step takes ten times as long
  constexpr size_t kBytes = 250'000;
#endif
  const std::vector<gguf::Writer> writers = {
      sample_bpe(),     sample_bpe("superbpe"), sample_spm(), sample_word_piece(),
      sample_unigram(), sample_gemma4(),        sample_rwkv()};
  for (const gguf::Writer& writer : writers) {
    const Tokenizer tokenizer = load_sample(writer);
    for (const char* unit : {"a", " ", "\n", "1", "é", "<", "<tool>", "ab"}) {
      std::string text;
      while (text.size() < kBytes) text += unit;
      const std::clock_t begin = std::clock();
      tokenizer.encode(text, {.parse_special = true});
      const std::clock_t time = std::clock() - begin;
      // Linear work takes less than a second, or several seconds with a sanitiser. Quadratic work
      // takes minutes.
      EXPECT_LT(time, 20 * CLOCKS_PER_SEC) << tokenizer.model() << " on " << unit;
    }
  }
}

TEST(Tokenizer, EncodesOnManyThreads) {
  const Tokenizer tokenizer = load_sample(sample_bpe());
  const std::string text = "hello world <tool> 123 l'été\n\n";
  const Ids expected = tokenizer.encode(text);
  std::vector<std::thread> threads;
  std::vector<int> n_right(4, 0);
  for (int& right : n_right) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const Ids ids = tokenizer.encode(text);
        right += ids == expected && tokenizer.decode(ids) == text;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_right, std::vector<int>(4, 200));
}

struct BadFile {
  const char* what;  // part of the message
  std::function<gguf::Writer()> make;
  ErrorCode code = ErrorCode::kInvalidInput;
};

TEST(Tokenizer, BadFilesThrowErrorsWithTheReason) {
  const auto without_merges = [] {
    gguf::Writer full = sample_bpe();
    gguf::Writer writer;
    const std::vector<std::byte> bytes = full.to_bytes();
    const gguf::File file = gguf::File::parse(bytes, "sample");
    for (const gguf::Entry& entry : file.metadata()) {
      if (entry.key != "tokenizer.ggml.merges") writer.set(entry.key, entry.value);
    }
    return writer;
  };
  const auto changed = [](gguf::Writer writer, const auto& change) {
    change(writer);
    return writer;
  };
  const BadFile cases[] = {
      {"tokenizer.ggml.model is missing", [] { return gguf::Writer(); }},
      {"'plamo2' is not supported",
       [&] {
         return changed(sample_bpe(),
                        [](auto& w) { w.set_string("tokenizer.ggml.model", "plamo2"); });
       },
       ErrorCode::kUnsupported},
      {"tokenizer.ggml.pre 'martian' is not supported", [] { return sample_bpe("martian"); },
       ErrorCode::kUnsupported},
      {"tokenizer.ggml.merges is missing", without_merges},
      {"tokenizer.ggml.merges[1] must be two texts separated by a space",
       [&] {
         return changed(sample_bpe(), [](auto& w) {
           w.set_strings("tokenizer.ggml.merges", Texts{"a b", "ab"});
         });
       }},
      {"tokenizer.ggml.tokens is missing",
       [] {
         gguf::Writer writer;
         writer.set_string("tokenizer.ggml.model", "llama");
         return writer;
       }},
      {"tokenizer.ggml.scores has 1 elements",
       [&] {
         return changed(sample_spm(), [](auto& w) {
           w.set_floats("tokenizer.ggml.scores", std::vector<float>{1});
         });
       }},
      {"tokenizer.ggml.scores[3] is not a number",
       [&] {
         return changed(sample_unigram(), [](auto& w) {
           std::vector<float> scores(13, 0.0F);
           scores[3] = std::numeric_limits<float>::quiet_NaN();
           w.set_floats("tokenizer.ggml.scores", scores);
         });
       }},
      {"tokenizer.ggml.token_type has 2 elements",
       [&] {
         return changed(sample_spm(), [](auto& w) {
           w.set_ints("tokenizer.ggml.token_type", std::vector<int32_t>{1, 1});
         });
       }},
      {"tokenizer.ggml.token_type is not an array of numbers",
       [&] {
         return changed(sample_spm(),
                        [](auto& w) { w.set_strings("tokenizer.ggml.token_type", Texts{"x"}); });
       }},
      {"tokenizer.ggml.scores is missing",
       [] {
         gguf::Writer writer;
         writer.set_string("tokenizer.ggml.model", "llama");
         writer.set_strings("tokenizer.ggml.tokens", Texts{"a"});
         return writer;
       }},
      {"tokenizer.ggml.precompiled_charsmap is not an array of bytes",
       [&] {
         return changed(sample_unigram(), [](auto& w) {
           w.set_ints("tokenizer.ggml.precompiled_charsmap", std::vector<int32_t>{1});
         });
       }},
  };
  for (const BadFile& bad : cases) {
    try {
      load_sample(bad.make());
      ADD_FAILURE() << "no error: " << bad.what;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(bad.what), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("sample"), std::string::npos) << error.what();
      EXPECT_EQ(error.code(), bad.code) << error.what();
    }
  }
}

TEST(Tokenizer, OddFilesLoad) {
  gguf::Writer writer = sample_bpe();
  // Ids out of range and flags without their token are ignored. A missing pre-tokeniser becomes
  // "default".
  writer.set_uint("tokenizer.ggml.eos_token_id", 1'000'000);
  writer.set_int("tokenizer.ggml.eot_token_id", -1);
  writer.set_bool("tokenizer.ggml.add_sep_token", true);
  writer.set_string("tokenizer.ggml.pre", "");
  writer.set_ints("tokenizer.ggml.suppress_tokens", std::vector<int32_t>{5, -3, 4, 5, 1'000'000});
  const Tokenizer tokenizer = load_sample(writer);
  EXPECT_EQ(tokenizer.pre_tokenizer(), "default");
  EXPECT_EQ(tokenizer.suppressed(), (Ids{4, 5}));
  EXPECT_EQ(tokenizer.eot(), tokenizer.find("<|im_end|>"));

  gguf::Writer empty;
  empty.set_string("tokenizer.ggml.model", "gpt2");
  empty.set_string("tokenizer.ggml.pre", "gpt-2");
  empty.set_strings("tokenizer.ggml.tokens", Texts{"", "a", "a"});
  empty.set_strings("tokenizer.ggml.merges", Texts{});
  const Tokenizer small = load_sample(empty);
  EXPECT_EQ(small.text(0), "[EMPTY_0]");
  EXPECT_EQ(small.encode("aab"), (Ids{1, 1}));
  EXPECT_EQ(small.bos(), kNoToken);
}

}  // namespace
}  // namespace billow::tokenizer
