// Tests predicting heads of each architecture that can have one. The files of the families have no
// head, so a test makes one: a copy of the last block with attention, and a random first product.
// Answers are the same to the bit as without the head.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "engine/answers.h"
#include "families/family_files.h"
#include "gguf/writer.h"

namespace billow::families {
namespace {

using engine::answer;
using engine::drafting;
using engine::drawn;
using engine::Engine;
using engine::expect_same;
using engine::greedy;
using engine::plain;
using engine::SequenceOptions;
using engine::Tokens;
using engine::Whole;

std::vector<std::string> families_with_heads() {
  const std::vector<std::string> all = family_names();
  std::vector<std::string> found;
  for (const char* name :
       {"deepseek2", "deepseek3", "glm4moe", "glm4moelite", "qwen35", "qwen35moe", "qwen3next"})
    if (std::ranges::find(all, name) != all.end()) found.emplace_back(name);
  return found;
}

// Returns "blk.N." of the last block with attention.
std::string last_attention(const gguf::File& file, uint64_t n_blocks) {
  for (uint64_t i = n_blocks; i-- > 0;) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    if (file.find_tensor(prefix + "attn_output.weight") != nullptr) return prefix;
  }
  return "";
}

std::vector<std::byte> with_head(const gguf::File& file, const std::string& architecture) {
  gguf::Writer writer;
  for (const gguf::Entry& entry : file.metadata()) writer.set(entry.key, entry.value);
  const uint64_t n_blocks = file.require_uint(architecture + ".block_count");
  const uint64_t n_embd = file.require_uint(architecture + ".embedding_length");
  writer.set_uint(architecture + ".block_count", static_cast<uint32_t>(n_blocks + 1));
  writer.set_uint(architecture + ".nextn_predict_layers", 1);
  const std::string from = last_attention(file, n_blocks);
  const std::string to = "blk." + std::to_string(n_blocks) + ".";
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    const auto shape = std::span(tensor.shape).first(tensor.n_dims);
    writer.add_tensor(tensor.name, tensor.type, shape, tensor.data);
    if (tensor.name.starts_with(from))
      writer.add_tensor(to + std::string(tensor.name.substr(from.size())), tensor.type, shape,
                        tensor.data);
  }
  std::mt19937 random(5);
  std::deque<std::vector<float>> kept;
  const auto add = [&](const std::string& name, std::vector<uint64_t> shape, float mean,
                       float deviation) {
    std::vector<float>& values = kept.emplace_back(shape[0] * (shape.size() > 1 ? shape[1] : 1));
    for (float& value : values)
      value = mean + deviation * (static_cast<float>(random() >> 8) * 0x1p-23f - 1.0f);
    writer.add_tensor(to + "nextn." + name, 0, shape, std::as_bytes(std::span(values)));
  };
  add("eh_proj.weight", {2 * n_embd, n_embd}, 0.0f, 1.0f / std::sqrt(static_cast<float>(n_embd)));
  add("enorm.weight", {n_embd}, 1.0f, 0.1f);
  add("hnorm.weight", {n_embd}, 1.0f, 0.1f);
  add("shared_head_norm.weight", {n_embd}, 1.0f, 0.1f);
  return writer.to_bytes();
}

class Heads : public testing::TestWithParam<std::string> {};

TEST_P(Heads, GuessWithoutChangingAnswers) {
  const Family family = read_family(GetParam(), BILLOW_FLOAT_FAMILIES);
  const gguf::File file = gguf::File::open(family.path);
  const std::vector<std::byte> bytes = with_head(file, family.architecture);
  Engine without(family.path, plain({.n_threads = 1}));
  Engine with(gguf::File::parse(bytes, "head.gguf"), drafting({.n_threads = 1}));
  ASSERT_NE(with.loaded().head(), nullptr);
  Tokens prompt;
  for (size_t i = 0; i < 100; ++i) prompt.push_back(family.tokens[i % family.tokens.size()]);
  size_t n_drafted = 0;
  for (const SequenceOptions& options : {greedy(40), drawn(2, 40), drawn(3, 40)}) {
    const Whole expected = answer(without, prompt, options);
    const Whole found = answer(with, prompt, options);
    expect_same(expected, found, GetParam());
    n_drafted += found.n_drafted;
  }
  EXPECT_GT(n_drafted, 10u);
}

INSTANTIATE_TEST_SUITE_P(Families, Heads, testing::ValuesIn(families_with_heads()), test_name);
// If the families are not there, the suite has no tests.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Heads);

}  // namespace
}  // namespace billow::families
