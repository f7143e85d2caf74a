// Compares with the ids of other projects' tokenizers for 46 texts, per vocabulary.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/test_source_dir.h"
#include "base/utf8.h"
#include "gguf/file.h"
#include "tokenizer/tokenizer.h"

namespace billow::tokenizer {
namespace {

const std::string kFolder = source_dir() + "/../shared/data/vocab/";

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<std::string> read_texts(const std::string& path) {
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::string all = read_file(path);
  std::vector<std::string> texts;
  for (size_t at = all.find(separator); at != std::string::npos; at = all.find(separator)) {
    texts.push_back(all.substr(0, at));
    all.erase(0, at + separator.size());
  }
  return texts;
}

std::vector<std::vector<TokenId>> read_ids(const std::string& path) {
  std::ifstream in(path);
  std::vector<std::vector<TokenId>> lists;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    lists.emplace_back(std::istream_iterator<TokenId>(words), std::istream_iterator<TokenId>());
  }
  return lists;
}

std::string model_path(const std::string& name) {
  const char* folder = std::getenv("BILLOW_TEST_MODELS");
  if (folder != nullptr) return std::string(folder) + "/" + name;
  const char* home = std::getenv("HOME");
  return std::string(home == nullptr ? "" : home) + "/.cache/billow/models/" + name;
}

struct Case {
  std::string name;
  std::string file;  // the vocabulary
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::string test_name(const testing::TestParamInfo<Case>& test) {
  std::string name = test.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// Returns the path of this file, among the vocabularies or the real models; empty if neither has
// it.
std::string find_file(const std::string& name) {
  for (const std::string& path : {kFolder + name, model_path(name)}) {
    if (std::filesystem::exists(path)) return path;
  }
  return {};
}

class ExpectedIds : public testing::TestWithParam<Case> {};

TEST_P(ExpectedIds, MatchEncoding) {
  const std::string file = find_file(GetParam().file);
  if (file.empty()) GTEST_SKIP() << "no vocabulary " << GetParam().file << " on this machine";
  const std::string base = kFolder + "ggml-vocab-" + GetParam().name + ".gguf";
  if (!std::filesystem::exists(base + ".out")) GTEST_SKIP() << "no expected ids " << base << ".out";
  const Tokenizer tokenizer = Tokenizer::load(gguf::File::open(file));
  const auto texts = read_texts(base + ".inp");
  const auto expected = read_ids(base + ".out");
  ASSERT_EQ(texts.size(), 46U);
  ASSERT_EQ(expected.size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(tokenizer.encode(texts[i], {.add_special = false}), expected[i]) << texts[i];
  }
}

// The ids of qwen2, llama-bpe and command-r come without a vocabulary. A real model has that of
// qwen2.
INSTANTIATE_TEST_SUITE_P(Vocabularies, ExpectedIds,
                         testing::Values(Case{"bert-bge", "ggml-vocab-bert-bge.gguf"},
                                         Case{"deepseek-coder", "ggml-vocab-deepseek-coder.gguf"},
                                         Case{"deepseek-llm", "ggml-vocab-deepseek-llm.gguf"},
                                         Case{"gpt-2", "ggml-vocab-gpt-2.gguf"},
                                         Case{"llama-spm", "ggml-vocab-llama-spm.gguf"},
                                         Case{"phi-3", "ggml-vocab-phi-3.gguf"},
                                         Case{"refact", "ggml-vocab-refact.gguf"},
                                         Case{"qwen2", "qwen2.5-coder-0.5b-q4_k_m.gguf"},
                                         Case{"llama-bpe", "ggml-vocab-llama-bpe.gguf"},
                                         Case{"command-r", "ggml-vocab-command-r.gguf"}),
                         test_name);

// Only byte-level BPE and SPM keep the text: WordPiece and Unigram normalise it.
class Lossless : public testing::TestWithParam<Case> {};

TEST_P(Lossless, TextSurvivesEncodingAndDecoding) {
  const std::string file = find_file(GetParam().file);
  const std::string texts = kFolder + "ggml-vocab-gpt-2.gguf.inp";
  if (file.empty()) GTEST_SKIP() << "no vocabulary " << GetParam().file << " on this machine";
  if (!std::filesystem::exists(texts)) GTEST_SKIP() << "no texts " << texts;
  const Tokenizer tokenizer = Tokenizer::load(gguf::File::open(file));
  for (const std::string& text : read_texts(texts)) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, {.add_special = false})), text);
  }
}

// The bytes of random text. Some bytes are excluded: bytes without a token, which happens (SmolLM2
// has none for 0xF1, and DeepSeek's letters for 0xF5 and up are user-defined letters); U+2581, a
// space to SPM by definition; and the first bytes of user-defined tokens, because SPM puts a space
// after such tokens.
class Alphabet {
 public:
  explicit Alphabet(const Tokenizer& tokenizer) {
    for (unsigned byte = 0; byte < 256; ++byte) {
      const std::string text(1, static_cast<char>(byte));
      const bool survives =
          tokenizer.decode(tokenizer.encode(text, {.add_special = false})) == text;
      has_[byte] = survives && text != "<" && text != "\n" && text != "\t" && text != "[";
    }
  }

  bool has(std::string_view bytes) const {
    return bytes != "\u2581" && std::all_of(bytes.begin(), bytes.end(), [this](char byte) {
             return has_[static_cast<unsigned char>(byte)];
           });
  }

 private:
  std::array<bool, 256> has_{};
};

TEST_P(Lossless, RandomTextSurvivesEncodingAndDecoding) {
  const std::string file = find_file(GetParam().file);
  if (file.empty()) GTEST_SKIP() << "no vocabulary " << GetParam().file << " on this machine";
  const Tokenizer tokenizer = Tokenizer::load(gguf::File::open(file));
  const Alphabet alphabet(tokenizer);
  std::mt19937 random(1);
  const auto below = [&random](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  for (int round = 0; round < 300; ++round) {
    std::string text;
    std::string bytes;
    for (uint32_t n = below(60); n > 0; --n) {
      const uint32_t c = below(4) == 0 ? below(0x110000) : below(below(2) == 0 ? 0x80 : 0x3000);
      std::string character;
      utf8::append(character, c);
      if ((c < 0xD800 || c > 0xDFFF) && alphabet.has(character)) text += character;
      const char byte = static_cast<char>(below(256));
      if (alphabet.has({&byte, 1})) bytes.push_back(byte);
    }
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, {.add_special = false})), text);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(bytes, {.add_special = false})), bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, Lossless,
                         testing::Values(Case{"deepseek-coder", "ggml-vocab-deepseek-coder.gguf"},
                                         Case{"deepseek-llm", "ggml-vocab-deepseek-llm.gguf"},
                                         Case{"gpt-2", "ggml-vocab-gpt-2.gguf"},
                                         Case{"gpt-neox", "ggml-vocab-gpt-neox.gguf"},
                                         Case{"refact", "ggml-vocab-refact.gguf"},
                                         Case{"baichuan", "ggml-vocab-baichuan.gguf"},
                                         Case{"llama-spm", "ggml-vocab-llama-spm.gguf"},
                                         Case{"phi-3", "ggml-vocab-phi-3.gguf"},
                                         Case{"qwen2", "qwen2.5-coder-0.5b-q4_k_m.gguf"},
                                         Case{"smollm2", "smollm2-135m-q4_1.gguf"},
                                         Case{"gemma3", "gemma3-270m-q4_k_m.gguf"}),
                         test_name);

}  // namespace
}  // namespace billow::tokenizer
