#include "reference/tiny_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "gguf/file.h"
#include "reference/reference_model.h"

namespace billow::reference {
namespace {

TEST(TinyModel, SameSeedGivesSameBytesAndOtherSeedGivesOthers) {
  EXPECT_EQ(make_tiny_model({.seed = 5}), make_tiny_model({.seed = 5}));
  EXPECT_NE(make_tiny_model({.seed = 5}), make_tiny_model({.seed = 6}));
}

TEST(TinyModel, EveryVariantHasACompleteTokenizer) {
  for (const auto& [name, options] : tiny_variants()) {
    SCOPED_TRACE(name);
    const std::vector<std::byte> bytes = make_tiny_model(options);
    const gguf::File file = gguf::File::parse(bytes, name);
    const gguf::Array* tokens = file.get_string_array("tokenizer.ggml.tokens");
    ASSERT_NE(tokens, nullptr);
    EXPECT_EQ(tokens->n, file.find_tensor("token_embd.weight")->shape[1]);
    EXPECT_EQ(tokens->n, file.get_array("tokenizer.ggml.token_type")->n);
    EXPECT_EQ(tokens->n, std::set(tokens->strings.begin(), tokens->strings.end()).size());
    EXPECT_LT(file.require_uint("tokenizer.ggml.bos_token_id"), tokens->n);
    EXPECT_LT(file.require_uint("tokenizer.ggml.eos_token_id"), tokens->n);
    if (file.require_string("tokenizer.ggml.model") == "llama") {
      EXPECT_EQ(tokens->n, file.get_array("tokenizer.ggml.scores")->n);
    } else {
      EXPECT_NE(file.get_string_array("tokenizer.ggml.merges"), nullptr);
    }
  }
}

TEST(TinyModel, MergesJoinExistingTokens) {
  const std::vector<std::byte> bytes = make_tiny_model({.architecture = "qwen2"});
  const gguf::File file = gguf::File::parse(bytes, "qwen2");
  const gguf::Array* tokens = file.get_string_array("tokenizer.ggml.tokens");
  constexpr size_t kFirstMerged = 3 + 256;
  std::set<std::string> known(tokens->strings.begin(), tokens->strings.begin() + kFirstMerged);
  const auto& merges = file.get_string_array("tokenizer.ggml.merges")->strings;
  ASSERT_EQ(merges.size(), tokens->n - kFirstMerged);
  for (size_t i = 0; i < merges.size(); ++i) {
    const size_t space = merges[i].find(' ');
    const std::string left(merges[i].substr(0, space));
    const std::string right(merges[i].substr(space + 1));
    EXPECT_TRUE(known.contains(left)) << merges[i];
    EXPECT_TRUE(known.contains(right)) << merges[i];
    EXPECT_EQ(tokens->strings[kFirstMerged + i], left + right);
    known.insert(left + right);
  }
}

TEST(TinyModel, EncodesInEveryTypeWithAFallbackForShortRows) {
#ifdef NDEBUG
  constexpr size_t kEach = 1;
#else  // with sanitizers each step takes ten times as long; tests of quant encode every type
  constexpr size_t kEach = 8;
#endif
  const auto types = quant::types();
  for (size_t i = 0; i < types.size(); i += kEach) {
    const quant::TypeRow& type = types[i];
    if (type.type == quant::Type::kQ8_K) continue;  // a type of activations, not of files
    SCOPED_TRACE(type.name);
    const std::vector<std::byte> bytes =
        make_tiny_model({.type = type.type, .n_layers = 1, .n_ff = 288});
    const gguf::File file = gguf::File::parse(bytes, "tiny");
    EXPECT_EQ(file.find_tensor("blk.0.ffn_up.weight")->type, static_cast<uint32_t>(type.type));
    const bool fits = 288 % type.group_len == 0;
    EXPECT_EQ(file.find_tensor("blk.0.ffn_down.weight")->type,
              static_cast<uint32_t>(fits ? type.type : quant::Type::kQ8_0));
    const ReferenceModel model(file);
    const std::vector<int32_t> tokens{1, 2, 3};
    const std::vector<float> logits = model.logits(tokens);
    EXPECT_TRUE(std::all_of(logits.begin(), logits.end(), [](float x) { return x == x; }));
  }
}

}  // namespace
}  // namespace billow::reference
