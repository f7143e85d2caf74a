#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/sample_vocabularies.h"

namespace billow::tokenizer {
namespace {

using Texts = std::vector<std::string>;

// Builds a double array of the texts. The child for a byte is at the parent's base XOR the byte.
// The child for byte 0 has the value.
class CharsMapBuilder {
 public:
  std::string build(const std::map<std::string, std::string>& replacements) {
    units_.assign(4096, 0);
    used_.assign(4096, false);
    used_[0] = true;
    std::map<std::string, uint32_t> values;
    for (const auto& [text, replacement] : replacements) {
      values[text] = static_cast<uint32_t>(strings_.size());
      strings_ += replacement + '\0';
    }
    place(0, values);
    std::string blob;
    append(blob, static_cast<uint32_t>(4 * units_.size()));
    for (const uint32_t unit : units_) append(blob, unit);
    return blob + strings_;
  }

 private:
  static void append(std::string& out, uint32_t value) {
    for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>((value >> (8 * i)) & 0xFF));
  }

  // `values`: the remaining bytes of the texts below `unit`, and their values.
  void place(uint32_t unit, const std::map<std::string, uint32_t>& values) {
    std::map<uint8_t, std::map<std::string, uint32_t>> children;
    for (const auto& [text, value] : values) {
      const uint8_t byte = text.empty() ? 0 : static_cast<uint8_t>(text[0]);
      children[byte][text.empty() ? "" : text.substr(1)] = value;
    }
    uint32_t base = 256;
    const auto fits = [&] {
      for (const auto& child : children) {
        if (used_[base ^ child.first]) return false;
      }
      return true;
    };
    while (!fits()) base += 256;
    units_[unit] |= (unit ^ base) << 10;
    for (const auto& child : children) used_[base ^ child.first] = true;
    for (const auto& [byte, rest] : children) {
      if (byte == 0) {
        units_[unit] |= 1u << 8;
        units_[base] = (1u << 31) | rest.begin()->second;
      } else {
        units_[base ^ byte] = byte;
        place(base ^ byte, rest);
      }
    }
  }

  std::vector<uint32_t> units_;
  std::vector<bool> used_;
  std::string strings_;
};

gguf::Writer with_charsmap(const std::string& blob) {
  gguf::Writer writer = sample_unigram();
  gguf::Array bytes;
  bytes.element_type = gguf::ValueType::kU8;
  bytes.n = blob.size();
  bytes.bytes = std::as_bytes(std::span(blob.data(), blob.size()));
  writer.set("tokenizer.ggml.precompiled_charsmap", gguf::Value{gguf::ValueType::kArray, bytes});
  return writer;
}

Texts encode(const gguf::Writer& writer, std::string_view text, bool add_special = false) {
  const Tokenizer tokenizer = load_sample(writer);
  Texts texts;
  for (const TokenId id : tokenizer.encode(text, {.add_special = add_special})) {
    texts.emplace_back(tokenizer.text(id));
  }
  return texts;
}

TEST(Unigram, TheLargestSumOfScoresWins) {
  // Sums of scores: ▁a b: -6.5; ▁ ab: -6; ▁ab: -7; ▁ a b: -8.
  EXPECT_EQ(encode(sample_unigram(), "ab"), (Texts{"▁", "ab"}));
  EXPECT_EQ(encode(sample_unigram(), "a", true), (Texts{"▁a", "</s>"}));
}

TEST(Unigram, RunsOfUnknownCharactersAreOneToken) {
  EXPECT_EQ(encode(sample_unigram(), "a天地b"), (Texts{"▁a", "<unk>", "b"}));
  EXPECT_EQ(encode(sample_unigram(), "天 地"), (Texts{"▁", "<unk>", "▁", "<unk>"}));
}

TEST(Unigram, MergesSpacesOnlyIfTheFileWantsIt) {
  EXPECT_EQ(encode(sample_unigram(), "  a   b  "), (Texts{"▁a", "▁", "b"}));
  gguf::Writer writer = sample_unigram();
  writer.set_bool("tokenizer.ggml.remove_extra_whitespaces", false);
  EXPECT_EQ(encode(writer, "a  b"), (Texts{"▁a", "▁", "▁", "b"}));
  writer.set_bool("tokenizer.ggml.add_space_prefix", false);
  EXPECT_EQ(encode(writer, "a b"), (Texts{"a", "▁", "b"}));
}

TEST(Unigram, UserDefinedTokensAreTakenWhole) {
  EXPECT_EQ(encode(sample_unigram(), "a<tool>"), (Texts{"▁a", "<tool>"}));
}

TEST(Unigram, TextIsNormalisedByTheLongestPrefix) {
  CharsMapBuilder builder;
  const gguf::Writer writer =
      with_charsmap(builder.build({{"ﬁ", "fi"}, {"Ａ", "a"}, {"ＡＡ", "b"}, {"\u00ad", ""}}));
  EXPECT_EQ(encode(writer, "ﬁ"), (Texts{"▁", "fi"}));
  EXPECT_EQ(encode(writer, "ＡＡＡ"), (Texts{"▁", "b", "a"}));
  EXPECT_EQ(encode(writer, "a\u00ad\u00adb"), (Texts{"▁", "ab"}));
}

TEST(Unigram, InvalidUtf8IsUnknown) {
  EXPECT_EQ(encode(sample_unigram(),
                   "a\xFF\xFE"
                   "b"),
            (Texts{"▁a", "<unk>", "b"}));
}

TEST(Unigram, DecodingReturnsTheNormalisedText) {
  const Tokenizer tokenizer = load_sample(sample_unigram());
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(" a  b ", {.add_special = false})), "a b");
}

TEST(CharsMap, MalformedMapsAreErrors) {
  const auto load = [](std::string_view blob) { return CharsMap(blob, "map"); };
  EXPECT_THROW(load("abc"), Error);
  EXPECT_THROW(load(std::string_view("\x08\0\0\0abcd", 8)), Error);  // nodes beyond the end
  EXPECT_THROW(load(std::string_view("\x04\0\0\0abcdx", 9)),
               Error);  // a replacement without an end
  EXPECT_THROW(load(std::string_view("\x03\0\0\0abc\0", 8)), Error);  // not whole nodes
  EXPECT_EQ(load(std::string_view("\0\0\0\0", 4)).longest_prefix("a").n_bytes, 0U);
}

TEST(CharsMap, NodesThatPointOutsideMatchNothing) {
  // One node whose children are far out of range.
  const std::string blob("\x04\0\0\0\xFF\xFF\xFF\x7F\0", 9);
  EXPECT_EQ(CharsMap(blob, "map").longest_prefix("abc").n_bytes, 0U);
}

}  // namespace
}  // namespace billow::tokenizer
