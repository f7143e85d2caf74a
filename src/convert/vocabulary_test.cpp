// Vocabularies of language models, from all supported files.
#include "convert/vocabulary.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/base64.h"
#include "base/error.h"
#include "convert/known_vocabularies.h"
#include "convert/sample_model.h"
#include "convert/sampling_defaults.h"
#include "convert/sentence_piece.h"
#include "gguf/file.h"
#include "tokenizer/tokenizer.h"

namespace billow::convert {
namespace {

using tokenizer::TokenId;
using tokenizer::TokenType;

// Writes the wire format of protocol buffers.
std::string number(uint64_t value) {
  std::string bytes;
  for (; value > 127; value >>= 7) bytes += static_cast<char>(value | 128);
  return bytes + static_cast<char>(value);
}
std::string number_field(uint32_t field, uint64_t value) {
  return number(field * 8) + number(value);
}
std::string bytes_field(uint32_t field, const std::string& bytes) {
  return number(field * 8 + 2) + number(bytes.size()) + bytes;
}

std::string piece(const std::string& text, float score, uint64_t type) {
  std::string bits(sizeof score, '\0');
  std::memcpy(bits.data(), &score, sizeof score);
  return bytes_field(1, bytes_field(1, text) + number(2 * 8 + 5) + bits + number_field(3, type));
}

// Returns a SentencePiece file with pieces of "ab" that merge by their scores. Kind 2 is BPE.
std::string sample_model_file(uint64_t kind = 2) {
  return piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) + piece("<0x21>", 0, 6) +
         piece("\xE2\x96\x81", -3, 1) + piece("a", -4, 1) + piece("b", -5, 1) + piece("ab", -1, 1) +
         piece(
             "\xE2\x96\x81"
             "ab",
             -2, 1) +
         piece("\xE2\x96\x81x", 0, 4) + bytes_field(2, number_field(3, kind)) +
         bytes_field(3, number_field(3, 1));
}

class LanguageVocabulary : public testing::Test {
 protected:
  Vocabulary read(uint32_t n_rows = 20) {
    const std::vector<SourceFile> files = model.files();
    return read_language_vocabulary(Sources(files), n_rows);
  }

  tokenizer::Tokenizer reader(const Vocabulary& vocabulary) {
    gguf::Writer writer;
    vocabulary.write(writer);
    bytes = writer.to_bytes();
    return tokenizer::Tokenizer::load(gguf::File::parse(bytes, "vocabulary"));
  }

  std::string refusal(uint32_t n_rows = 20) {
    try {
      read(n_rows);
    } catch (const Error& error) {
      EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos);
      return error.what();
    }
    return "";
  }

  SampleModel model;
  std::vector<std::byte> bytes;
};

TEST_F(LanguageVocabulary, SentencePieceHasPiecesScoresAndTypes) {
  model.texts["tokenizer.model"] = sample_model_file();
  model.texts["added_tokens.json"] = R"({"<tool>": 10})";
  model.texts["tokenizer_config.json"] = R"({"bos_token": "<s>", "eos_token": {"content": "</s>"},
    "unk_token": "<unk>", "add_bos_token": true, "add_eos_token": false,
    "added_tokens_decoder": {"11": {"content": "<|im_end|>", "special": false},
                             "12": {"content": "▁y", "special": false}}})";
  const Vocabulary vocabulary = read();
  EXPECT_EQ(vocabulary.model, "llama");
  EXPECT_EQ(vocabulary.pre, "default");
  const auto expect = [&](size_t id, const std::string& text, float score, TokenType type) {
    EXPECT_EQ(vocabulary.pieces[id].text, text);
    EXPECT_EQ(vocabulary.pieces[id].score, score) << text;
    EXPECT_EQ(vocabulary.pieces[id].type, type) << text;
  };
  expect(0, "<unk>", 0, TokenType::kUnknown);
  expect(3, "<0x21>", 0, TokenType::kByte);
  expect(7, "ab", -1, TokenType::kNormal);
  expect(9, " x", 0, TokenType::kUserDefined);
  expect(10, "<tool>", -1000, TokenType::kUserDefined);
  expect(11, "<|im_end|>", -1000, TokenType::kControl);
  expect(12, " y", -1000, TokenType::kUserDefined);
  expect(13, "[PAD13]", -10000, TokenType::kUnused);
  EXPECT_EQ(vocabulary.special.unknown, 0u);
  EXPECT_EQ(vocabulary.special.adds_eos, false);
  const auto tokens = reader(vocabulary);
  EXPECT_EQ(tokens.encode("ab ab!"), (std::vector<TokenId>{1, 8, 8, 3}));
  EXPECT_EQ(tokens.encode("b<tool>", {.add_special = false}), (std::vector<TokenId>{4, 6, 10}));
}

TEST_F(LanguageVocabulary, SentencePieceReadsSpacePrefix) {
  model.texts["tokenizer.model"] = sample_model_file() + bytes_field(3, number_field(3, 0));
  EXPECT_FALSE(read().adds_space_prefix);
}

TEST_F(LanguageVocabulary, UnigramBecomesT5) {
  model.texts["tokenizer.model"] = sample_model_file(1) + bytes_field(3, bytes_field(2, ""));
  const Vocabulary vocabulary = read();
  EXPECT_EQ(vocabulary.model, "t5");
  EXPECT_TRUE(vocabulary.charsmap.empty());
  model.texts["tokenizer.model"] = sample_model_file(3);
  EXPECT_NE(refusal().find("tokenizer.model: only vocabularies of the kinds BPE and Unigram"),
            std::string::npos);
}

TEST_F(LanguageVocabulary, SentencePieceRefusesDamagedFiles) {
  const std::string whole = sample_model_file();
  for (const std::string& damaged :
       {whole.substr(0, 9), bytes_field(1, "abc") + "\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01",
        bytes_field(1, number_field(1, 3)), std::string("\n\x05zz"), bytes_field(1, "\x01"),
        piece("a", 0, 9), piece("\xFF", 0, 1), whole + "\x07"}) {
    model.texts["tokenizer.model"] = damaged;
    EXPECT_TRUE(refusal().starts_with("tokenizer.model: ")) << refusal();
  }
}

TEST_F(LanguageVocabulary, ByteFallbackGetsScoresFromMergeOrder) {
  model.tokenizer = Json::parse(R"({"added_tokens": [{"id": 0, "content": "<s>", "special": true}],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
    "pre_tokenizer": null,
    "model": {"type": "BPE", "byte_fallback": true, "vocab": {"<s>": 0, "▁": 1, "a": 2, "b": 3,
      "ab": 4, "▁ab": 5, "<0x0A>": 6}, "merges": ["a b", ["▁", "ab"]]}})");
  Vocabulary vocabulary = read(8);
  EXPECT_EQ(vocabulary.model, "llama");
  EXPECT_TRUE(vocabulary.adds_space_prefix);
  EXPECT_GT(vocabulary.pieces[4].score, vocabulary.pieces[5].score);
  EXPECT_GT(vocabulary.pieces[5].score, vocabulary.pieces[2].score);
  EXPECT_EQ(vocabulary.pieces[6].type, TokenType::kByte);
  EXPECT_EQ(reader(vocabulary).encode("ab\n", {.add_special = false}),
            (std::vector<TokenId>{5, 6}));
  model.config["model_type"] = "gemma4_text";
  vocabulary = read(8);
  EXPECT_EQ(vocabulary.model, "gemma4");
  EXPECT_EQ(vocabulary.merges, (std::vector<std::string>{"a b", "▁ ab"}));
  EXPECT_FALSE(vocabulary.adds_space_prefix);
  model.config["model_type"] = "llama";
  model.tokenizer["model"]["merges"] = {"a b", "▁ a", "▁a b", "▁ ab", "a b"};
  EXPECT_NE(refusal(8).find("make 'ab' at two places"), std::string::npos) << refusal(8);
}

std::string byte_lines() {
  std::string lines;
  for (int i = 0; i < 256; ++i)
    lines += base64_encoded(std::string(1, static_cast<char>(i))) + " " + std::to_string(i) + "\n";
  return lines;
}

TEST_F(LanguageVocabulary, RankedLinesGiveTheLastMergeOfEachToken) {
  model.texts["tokenizer_config.json"] = R"({"eos_token": "<|end|>",
    "added_tokens_decoder": {"259": {"content": "<|end|>", "special": true}}})";
  model.texts["tiktoken.model"] = byte_lines() + base64_encoded("ab") + " 256\n" +
                                  base64_encoded("bc") + " 257\n" + base64_encoded("abc") +
                                  " 258\n";
  // The pre-tokeniser is unknown, because the vocabulary is not a published one.
  EXPECT_NE(refusal(300).find("not a published one"), std::string::npos) << refusal(300);
  Vocabulary vocabulary;
  vocabulary.pieces = empty_pieces(300);
  const std::vector<SourceFile> files = model.files();
  read_ranked_lines(Sources(files), "tiktoken.model", vocabulary);
  EXPECT_EQ(vocabulary.merges, (std::vector<std::string>{"a b", "b c", "ab c"}));
  EXPECT_EQ(vocabulary.pieces[32].text, "Ġ");
  EXPECT_EQ(vocabulary.pieces[259].type, TokenType::kControl);
  model.texts["tiktoken.model"] = "!!!! 0\n";
  EXPECT_NE(refusal().find("tiktoken.model: token 0 is not"), std::string::npos);
  model.texts["tiktoken.model"] = "IQ== 1\n";
  EXPECT_NE(refusal().find("tiktoken.model: line 1 is not"), std::string::npos);
  model.texts["tiktoken.model"] = "IQ== 0\nIQ== 1\n";
  EXPECT_NE(refusal().find("are the same"), std::string::npos);
}

Json sample_tekken() {
  Json vocab = Json::array();
  for (int i = 0; i < 256; ++i)
    vocab.push_back(
        {{"rank", i}, {"token_bytes", base64_encoded(std::string(1, static_cast<char>(i)))}});
  vocab.push_back({{"rank", 256}, {"token_bytes", base64_encoded("ab")}});
  vocab.push_back({{"rank", 257}, {"token_bytes", base64_encoded("abc")}});
  return {{"config", {{"default_vocab_size", 277}, {"default_num_special_tokens", 20}}},
          {"vocab", vocab}};
}

TEST_F(LanguageVocabulary, TekkenBeginsWithSpecialTokens) {
  model.texts["tekken.json"] = sample_tekken().dump();
  Vocabulary vocabulary = read(280);
  EXPECT_EQ(vocabulary.pre, "tekken");
  EXPECT_EQ(vocabulary.pieces[3].text, "[INST]");
  EXPECT_EQ(vocabulary.pieces[3].type, TokenType::kControl);
  EXPECT_EQ(vocabulary.pieces[276].text, "ab");
  EXPECT_EQ(vocabulary.merges, (std::vector<std::string>{"a b"})) << "the last token is dropped";
  EXPECT_EQ(vocabulary.special.bos, 1u);
  EXPECT_EQ(vocabulary.special.padding, 11u);
  EXPECT_EQ(reader(vocabulary).encode("abc"), (std::vector<TokenId>{1, 276, 20 + 'c'}));
  Json file = sample_tekken();
  file["special_tokens"] = {{{"rank", 4}, {"token_str", "[X]"}, {"is_control", true}}};
  model.texts["tekken.json"] = file.dump();
  vocabulary = read(280);
  EXPECT_EQ(vocabulary.pieces[4].text, "[X]");
  EXPECT_EQ(vocabulary.pieces[3].text, "<SPECIAL_3>");
  file["config"]["default_vocab_size"] = 1000;
  model.texts["tekken.json"] = file.dump();
  EXPECT_NE(refusal(280).find("\"default_vocab_size\" does not fit"), std::string::npos);
  model.texts["tekken.json"] = R"({"config": {}, "vocab": []})";
  EXPECT_NE(refusal(280).find("\"default_vocab_size\" is missing"), std::string::npos);
}

TEST_F(LanguageVocabulary, RwkvReadsPythonNotation) {
  model.texts[kWorldFile] =
      "1 '\\x00' 1\n2 'a b' 3\n3 b'\\xff' 1\n4 '\\u00e9' 2\n5 \"'\" 1\n6 '\\n\\n' 2\n";
  const Vocabulary vocabulary = read(8);
  EXPECT_EQ(vocabulary.model, "rwkv");
  const char* texts[] = {"<s>", "\\x00", "a b", "\\xff", "\\xc3\\xa9", "'", "\\n\\n", "[PAD7]"};
  for (size_t id = 0; id < 8; ++id) EXPECT_EQ(vocabulary.pieces[id].text, texts[id]);
  EXPECT_EQ(reader(vocabulary).encode("a b\xC3\xA9\n\n'"), (std::vector<TokenId>{2, 4, 6, 5}));
  for (const char* wrong : {"1 'a' 2\n", "2 'a' 1\n", "1 'a\n", "1 a 1\n", "1 '\\q' 1\n", "1\n",
                            "1 '\\x4' 1\n", "1 '\\' 1\n"}) {
    model.texts[kWorldFile] = wrong;
    EXPECT_NE(refusal(8).find("line 1 is not"), std::string::npos) << wrong;
  }
}

TEST_F(LanguageVocabulary, VocabAndMergesFilesMustBePublished) {
  model.texts["vocab.json"] = R"({"a": 0, "b": 1, "ab": 2})";
  EXPECT_NE(refusal().find("merges.txt is missing"), std::string::npos);
  model.texts["merges.txt"] = "#version: 0.2\na b\n";
  EXPECT_NE(refusal().find("not a published one"), std::string::npos) << refusal();
  Vocabulary vocabulary;
  vocabulary.pieces = empty_pieces(8);
  const std::vector<SourceFile> files = model.files();
  read_pair_files(Sources(files), vocabulary);
  EXPECT_EQ(vocabulary.merges, (std::vector<std::string>{"a b"}));
  model.texts["merges.txt"] = "a b c\n";
  EXPECT_NE(refusal().find("merges.txt: line 1"), std::string::npos);
}

TEST_F(LanguageVocabulary, NamesMissingVocabulary) {
  EXPECT_NE(refusal().find("there is no vocabulary"), std::string::npos);
}

Json byte_pairs(const Json& post_processor) {
  Json tokenizer = Json::parse(R"({
    "added_tokens": [{"id": 2, "content": "<|bos|>", "special": true},
                     {"id": 3, "content": "<|eos|>", "special": true},
                     {"id": 4, "content": "<|last|>", "special": true},
                     {"id": 5, "content": "▁▁", "special": false}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": [["a", "b c"]]}})");
  tokenizer["post_processor"] = post_processor;
  return tokenizer;
}

TEST_F(LanguageVocabulary, TemplatesEndIsEosAndConfiguredEndIsEot) {
  model.tokenizer = byte_pairs(Json::parse(R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<|bos|>"}}, {"Sequence": {"id": "A"}},
               {"SpecialToken": {"id": "<|last|>"}}]})"));
  model.texts["tokenizer_config.json"] = R"({"eos_token": "<|eos|>", "add_bos_token": false})";
  const Vocabulary vocabulary = read(8);
  const SpecialTokens& special = vocabulary.special;
  EXPECT_EQ(special.bos, 2u);
  EXPECT_EQ(special.eos, 4u);
  EXPECT_EQ(special.eot, 3u);
  EXPECT_EQ(special.adds_bos, true) << "the post-processor overrides the flag";
  EXPECT_EQ(special.adds_eos, true);
  EXPECT_EQ(vocabulary.pieces[5].text, "  ") << "stored as the tokenizer searches for it";
  EXPECT_EQ(vocabulary.merges, (std::vector<std::string>{"a bĠc"}));
}

TEST_F(LanguageVocabulary, UsesConfiguredIdsIfNoTokenTextIsGiven) {
  model.tokenizer = byte_pairs(Json::parse(R"({"type": "ByteLevel"})"));
  model.config = Json::parse(R"({"bos_token_id": 2, "eos_token_id": [3, 4], "pad_token_id": 99,
                                 "text_config": {"eos_token_id": 3}})");
  const SpecialTokens special = read(8).special;
  EXPECT_EQ(special.bos, 2u);
  EXPECT_EQ(special.eos, std::nullopt) << "a list is not one token";
  EXPECT_EQ(special.padding, std::nullopt) << "beyond the table";
  EXPECT_EQ(special.adds_bos, false);
}

TEST(KnownVocabularies, IdentifiedByTokens) {
  // GPT-2's tokens of the probe text.
  const std::vector<TokenId> ids = {
      198,   220,   628,   220,   628,   198,   220,   197,   220,   197,   197,   220,   197,
      198,   220,   220,   198,   220,   220,   220,   198,   220,   220,   220,   220,   198,
      220,   220,   220,   220,   220,   198,   8582,  248,   222,   357,   11265, 8,     30325,
      114,   447,   235,   8582,  234,   104,   37929, 357,   48101, 795,   13210, 271,   1673,
      36686, 515,   8,     14519, 227,   12520, 99,    247,   8582,  99,    247,   513,   4747,
      23460, 513,   20370, 23460, 2091,  23460, 20370, 23460, 24840, 23460, 2091,  20370, 513,
      13,    18,    513,   492,   18,    513,   986,   18,    28053, 252,   222,   157,   252,
      114,   157,   252,   241,   157,   253,   233,   157,   252,   237,   157,   253,   224,
      157,   252,   244,   157,   252,   115,   157,   252,   253,   157,   253,   223,   157,
      252,   253,   157,   252,   95,    157,   252,   114,   157,   252,   227,   47249, 223,
      5633,  22755, 239,   46349, 111,   28839, 101,   18040, 32432, 98,    43291, 1485,  1415,
      24309, 25465, 171,   121,   252,   40103, 1421,  18604, 12466, 121,   16843, 141,   231,
      15166, 12466, 121,   16142, 12466, 239,   141,   232,   30143, 140,   111,   16142, 21169,
      21727, 31583, 18849, 705,   39115, 6,     33153, 15506, 63,    15931, 15931, 16317, 13896,
      3228,  9805,  3548,  314,   1053,  587,   705,   44040, 339,   338,   612,   11,    705,
      2200,  345,   1654,  30,    705,   44,    407,   1654,  314,   1183,  787,   340,   11,
      705,   35,    345,   588,   617,   8887,  30,    775,   6,     26979, 257,   6,     75,
      43};
  EXPECT_EQ(find_known_vocabulary(ids), "gpt-2");
  EXPECT_EQ(find_known_vocabulary({}), std::nullopt);
  EXPECT_EQ(probe_text().size(), 431u);
}

TEST(SamplingDefaults, ReadsGenerationConfig) {
  SampleModel model;
  model.texts["generation_config.json"] = R"({"temperature": 0.6, "top_k": 20, "top_p": 0.95,
    "repetition_penalty": 1.05, "do_sample": true, "eos_token_id": [1, 2]})";
  gguf::Writer writer;
  std::vector<SourceFile> files = model.files();
  write_sampling_defaults(Sources(files), writer);
  const std::vector<std::byte> bytes = writer.to_bytes();
  const gguf::File file = gguf::File::parse(bytes, "written");
  EXPECT_EQ(static_cast<float>(file.require_float("general.sampling.temp")), 0.6F);
  EXPECT_EQ(file.get_uint("general.sampling.top_k"), 20u);
  EXPECT_EQ(static_cast<float>(file.require_float("general.sampling.penalty_repeat")), 1.05F);
  EXPECT_EQ(file.find("general.sampling.min_p"), nullptr);
  for (const char* wrong : {R"({"top_k": 1e300})", R"({"top_k": 1.5})", R"({"top_p": "much"})"}) {
    model.texts["generation_config.json"] = wrong;
    files = model.files();
    EXPECT_THROW(write_sampling_defaults(Sources(files), writer), Error) << wrong;
  }
}

}  // namespace
}  // namespace billow::convert
