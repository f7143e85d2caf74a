// Tests invalid model files: the engine refuses each with one line that names the error.
#include <gtest/gtest.h>

#include "engine/changed_file.h"
#include "engine/tiny_engine.h"

namespace billow::engine {
namespace {

std::string refusal(const Change& change, const reference::TinyModelOptions& options = {}) {
  return refusal_of<Engine>(reference::make_tiny_model(options), change);
}

TEST(Damage, UnchangedModelLoads) { EXPECT_EQ(refusal({}), ""); }

TEST(Damage, NamesEveryMissingTensor) {
  for (const char* architecture : {"llama", "qwen2", "gemma3"}) {
    const reference::TinyModelOptions options{.architecture = architecture, .n_layers = 2};
    const std::vector<std::byte> bytes = reference::make_tiny_model(options);
    const gguf::File file = gguf::File::parse(bytes, "tiny.gguf");
    for (const gguf::TensorInfo& tensor : file.tensors()) {
      const bool optional = tensor.name == "output.weight" || tensor.name.ends_with(".bias") ||
                            tensor.name == "rope_freqs.weight";
      const std::string message = refusal({.drop_tensor = tensor.name}, options);
      EXPECT_EQ(names(message, tensor.name), !optional)
          << architecture << " " << tensor.name << ": " << message;
    }
  }
}

TEST(Damage, NamesEveryMatrixOfWrongShape) {
  const std::vector<std::byte> bytes = reference::make_tiny_model({.n_layers = 1});
  const gguf::File file = gguf::File::parse(bytes, "tiny.gguf");
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    if (tensor.n_dims != 2 || tensor.shape[0] == tensor.shape[1]) continue;
    EXPECT_TRUE(names(refusal({.reshape_tensor = tensor.name}, {.n_layers = 1}), tensor.name))
        << tensor.name;
  }
}

TEST(Damage, NamesUnknownArchitecturesAndFormats) {
  const std::string architecture = refusal({.set = [](gguf::Writer& w) {
    w.set_string("general.architecture", "perceptron");
    w.set_uint("perceptron.context_length", 10);
  }});
  EXPECT_TRUE(names(architecture, "perceptron") && names(architecture, "llama")) << architecture;
  const std::string format = refusal({.retype_tensor = "blk.1.ffn_up.weight"});
  EXPECT_TRUE(names(format, "blk.1.ffn_up.weight") && names(format, "I16")) << format;
}

TEST(Damage, NamesInvalidHyperparameters) {
  const auto with = [](const char* key, uint32_t value) {
    return refusal({.set = [=](gguf::Writer& w) { w.set_uint(key, value); }});
  };
  for (const char* key :
       {"llama.embedding_length", "llama.block_count", "llama.feed_forward_length",
        "llama.attention.head_count", "llama.attention.head_count_kv", "llama.context_length"}) {
    EXPECT_TRUE(names(with(key, 0), key)) << with(key, 0);
    EXPECT_NE(with(key, 0xFFFFFFFF), "") << key;
    EXPECT_TRUE(names(refusal({.drop_key = key}), key) ||
                std::string(key) == "llama.attention.head_count_kv");
  }
  EXPECT_TRUE(names(with("llama.rope.dimension_count", 63), "rope.dimension_count"));
  EXPECT_TRUE(names(with("llama.rope.dimension_count", 640), "rope.dimension_count"));
  EXPECT_TRUE(names(with("llama.attention.key_length", 40), "key_length"));
  EXPECT_TRUE(names(with("llama.expert_count", 8), "llama.expert_used_count"));
  EXPECT_TRUE(names(
      refusal({.set = [](gguf::Writer& w) { w.set_string("llama.rope.scaling.type", "magic"); }}),
      "magic"));
  EXPECT_TRUE(
      names(refusal({.set = [](gguf::Writer& w) { w.set_float("llama.rope.freq_base", -1.0f); }}),
            "freq_base"));
}

// A layer needs feed-forward weights. The key expert_feed_forward_length alone gives no experts.
TEST(Damage, RefusesLayerWithoutFeedForward) {
  for (const char* architecture : {"llama", "qwen2", "gemma3"}) {
    const std::string prefix = std::string(architecture) + ".";
    const std::string message = refusal(
        {.drop_key = prefix + "feed_forward_length",
         .set = [&](gguf::Writer& w) { w.set_uint(prefix + "expert_feed_forward_length", 64); }},
        {.architecture = architecture});
    EXPECT_TRUE(names(message, prefix + "feed_forward_length")) << message;
    EXPECT_TRUE(names(message, "layer 0")) << message;
  }
}

TEST(Damage, RefusesVocabularyWithoutMerges) {
  EXPECT_TRUE(names(refusal({.drop_key = "tokenizer.ggml.merges"}), "merges"));
  EXPECT_TRUE(names(refusal({.drop_key = "tokenizer.ggml.tokens"}), "tokens"));
  EXPECT_TRUE(names(refusal({.drop_key = "general.architecture"}), "general.architecture"));
}

}  // namespace
}  // namespace billow::engine
