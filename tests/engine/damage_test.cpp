// Models that are not as they should be: each is refused with one line that names what is wrong.
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "engine/tiny_engine.h"
#include "gguf/writer.h"

namespace billow::engine {
namespace {

struct Change {
  std::string drop_key = {};
  std::string drop_tensor = {};
  std::string reshape_tensor = {};  // its rows and columns change places
  std::string retype_tensor = {};   // becomes `new_type`, its bytes whatever
  uint32_t new_type = 0;
  std::function<void(gguf::Writer&)> set = {};
};

// What loading a tiny model with the change says; empty if nothing.
std::string refusal(const Change& change, const reference::TinyModelOptions& options = {}) {
  const std::vector<std::byte> bytes = reference::make_tiny_model(options);
  const gguf::File file = gguf::File::parse(bytes, "tiny.gguf");
  gguf::Writer writer;
  for (const gguf::Entry& entry : file.metadata()) {
    if (entry.key != change.drop_key) writer.set(entry.key, entry.value);
  }
  if (change.set) change.set(writer);
  const std::vector<std::byte> zeros(1 << 22);
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    if (tensor.name == change.drop_tensor) continue;
    std::vector<uint64_t> shape(tensor.shape.begin(), tensor.shape.begin() + tensor.n_dims);
    if (tensor.name == change.reshape_tensor) std::swap(shape.front(), shape.back());
    if (tensor.name == change.retype_tensor) {
      const size_t n_bytes = tensor.n_elements() / 256 * 66;  // IQ2_XXS
      writer.add_tensor(tensor.name, change.new_type, shape, std::span(zeros).first(n_bytes));
    } else {
      writer.add_tensor(tensor.name, tensor.type, shape, tensor.data);
    }
  }
  const std::vector<std::byte> changed = writer.to_bytes();
  try {
    Engine engine(gguf::File::parse(changed, "changed.gguf"), {.n_threads = 1});
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_NE(message.find("changed.gguf"), std::string::npos) << message;
    return message;
  }
  return "";
}

bool names(const std::string& message, const std::string& what) {
  return message.find(what) != std::string::npos;
}

TEST(Damage, AnUnchangedModelLoads) { EXPECT_EQ(refusal({}), ""); }

TEST(Damage, EveryMissingTensorIsNamed) {
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

TEST(Damage, EveryMisshapenMatrixIsNamed) {
  const std::vector<std::byte> bytes = reference::make_tiny_model({.n_layers = 1});
  const gguf::File file = gguf::File::parse(bytes, "tiny.gguf");
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    if (tensor.n_dims != 2 || tensor.shape[0] == tensor.shape[1]) continue;
    EXPECT_TRUE(names(refusal({.reshape_tensor = tensor.name}, {.n_layers = 1}), tensor.name))
        << tensor.name;
  }
}

TEST(Damage, UnknownArchitecturesAndFormatsAreNamed) {
  const std::string architecture = refusal({.set = [](gguf::Writer& w) {
    w.set_string("general.architecture", "perceptron");
    w.set_uint("perceptron.context_length", 10);
  }});
  EXPECT_TRUE(names(architecture, "perceptron") && names(architecture, "llama")) << architecture;
  const std::string format = refusal({.retype_tensor = "blk.1.ffn_up.weight", .new_type = 16});
  EXPECT_TRUE(names(format, "blk.1.ffn_up.weight") && names(format, "IQ2_XXS")) << format;
}

TEST(Damage, HyperparametersThatMakeNoSenseAreNamed) {
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
  EXPECT_TRUE(names(with("llama.expert_count", 8), "experts"));
  EXPECT_TRUE(names(
      refusal({.set = [](gguf::Writer& w) { w.set_string("llama.rope.scaling.type", "magic"); }}),
      "magic"));
  EXPECT_TRUE(
      names(refusal({.set = [](gguf::Writer& w) { w.set_float("llama.rope.freq_base", -1.0f); }}),
            "freq_base"));
}

TEST(Damage, AVocabularyWithoutMergesIsRefused) {
  EXPECT_TRUE(names(refusal({.drop_key = "tokenizer.ggml.merges"}), "merges"));
  EXPECT_TRUE(names(refusal({.drop_key = "tokenizer.ggml.tokens"}), "tokens"));
  EXPECT_TRUE(names(refusal({.drop_key = "general.architecture"}), "general.architecture"));
}

}  // namespace
}  // namespace billow::engine
