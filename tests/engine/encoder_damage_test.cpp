// Tests invalid encoder files: the engine refuses each with one line that names the error.
#include <gtest/gtest.h>

#include "engine/changed_file.h"
#include "engine/tiny_embedder.h"

namespace billow::engine {
namespace {

std::string refusal(const Change& change, const reference::TinyEncoderOptions& options = {}) {
  return refusal_of<EncoderModel>(reference::make_tiny_encoder(options), change);
}

TEST(EncoderDamage, NamesEveryMissingTensor) {
  for (const char* architecture : {"bert", "nomic-bert"}) {
    for (const bool fused : {false, true}) {
      const reference::TinyEncoderOptions options{
          .architecture = architecture, .n_layers = 2, .fused = fused, .n_labels = 1};
      EXPECT_EQ(refusal({}, options), "");
      const std::vector<std::byte> bytes = reference::make_tiny_encoder(options);
      const gguf::File file = gguf::File::parse(bytes, "tiny.gguf");
      for (const gguf::TensorInfo& tensor : file.tensors()) {
        const bool optional = tensor.name == "token_types.weight" || tensor.name.starts_with("cls");
        const std::string message = refusal({.drop_tensor = tensor.name}, options);
        const bool named = names(message, tensor.name) ||
                           (tensor.name.ends_with("attn_qkv.weight") && names(message, "attn_q"));
        EXPECT_EQ(named, !optional) << architecture << " " << tensor.name << ": " << message;
      }
    }
  }
}

TEST(EncoderDamage, NamesEveryMatrixOfWrongShape) {
  const reference::TinyEncoderOptions options{.n_layers = 1, .n_context = 64, .n_labels = 3};
  const std::vector<std::byte> bytes = reference::make_tiny_encoder(options);
  const gguf::File file = gguf::File::parse(bytes, "tiny.gguf");
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    if (tensor.n_dims != 2 || tensor.shape[0] == tensor.shape[1]) continue;
    const std::string message = refusal({.reshape_tensor = tensor.name}, options);
    // The number of labels is known only from the shape of the classifier.
    EXPECT_TRUE(names(message, tensor.name)) << tensor.name << ": " << message;
  }
}

TEST(EncoderDamage, NamesInvalidHyperparameters) {
  const auto with = [](const char* key, uint32_t value) {
    return refusal({.set = [=](gguf::Writer& w) { w.set_uint(key, value); }});
  };
  for (const char* key : {"bert.embedding_length", "bert.block_count", "bert.feed_forward_length",
                          "bert.attention.head_count", "bert.context_length"}) {
    EXPECT_TRUE(names(with(key, 0), key)) << with(key, 0);
    EXPECT_NE(with(key, 0xFFFFFFFF), "") << key;
    EXPECT_TRUE(names(refusal({.drop_key = key}), key)) << key;
  }
  EXPECT_TRUE(names(refusal({.drop_key = "bert.attention.layer_norm_epsilon"}), "epsilon"));
  EXPECT_TRUE(names(with("bert.attention.head_count", 3), "key_length"));
  EXPECT_TRUE(names(with("bert.attention.head_count_kv", 3), "head_count_kv"));
  EXPECT_TRUE(names(with("bert.attention.value_length", 64), "value_length"));
  EXPECT_TRUE(names(with("bert.pooling_type", 9), "pooling_type"));
  EXPECT_TRUE(names(with("bert.pooling_type", 4), "cls.output.weight"));
  EXPECT_TRUE(
      names(refusal({.set = [](gguf::Writer& w) { w.set_bool("bert.attention.causal", true); }}),
            "causal"));
  EXPECT_TRUE(names(refusal({.drop_key = "tokenizer.ggml.tokens"}), "tokens"));
}

// If header bytes are random, loading gives a model or a one-line error. A loaded model gives
// vectors or errors.
TEST(EncoderDamage, SurvivesRandomHeaderBytes) {
  const reference::TinyEncoderOptions options{
      .n_layers = 1, .n_embd = 32, .n_ff = 32, .n_head = 2, .n_context = 16};
  const std::vector<std::byte> whole = reference::make_tiny_encoder(options);
  const gguf::File file = gguf::File::parse(whole, "tiny.gguf");
  const auto n_header =
      static_cast<size_t>(file.find_tensor("token_embd.weight")->data.data() - whole.data());
  std::mt19937 random(7);
  size_t n_loaded = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::byte> bytes = whole;
    for (unsigned i = 0; i <= random() % 3; ++i)
      bytes[random() % n_header] = static_cast<std::byte>(random());
    try {
      EncoderModel model(gguf::File::parse(bytes, "changed.gguf"),
                         {.n_threads = 1, .memory_budget = uint64_t{256} << 20});
      ++n_loaded;
      const EmbedText text{.tokens = {2, 5, 6, 3}};
      if (model.refusal(text).empty()) embedded(model, {&text, 1});
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }
  EXPECT_GT(n_loaded, 0u);
}

}  // namespace
}  // namespace billow::engine
