// Tests KV that is saved to disk: after a restart, a conversation continues with the same tokens
// and evaluates only new ones.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "base/test_folder.h"
#include "engine/tiny_engine.h"

namespace billow::engine {
namespace {

namespace fs = std::filesystem;

class SessionsTest : public testing::Test {
 protected:
  void write_model(const reference::TinyModelOptions& options) {
    fs::remove(model_);
    reference::write_tiny_model(options, model_);
  }
  EngineOptions options(kernels::KvType type = kernels::KvType::kInt16) const {
    return {.n_threads = 1,
            .kv_type = type,
            .max_cached = uint64_t{1} << 30,
            .sessions = {folder_ + "/sessions", uint64_t{1} << 30}};
  }
  struct Turn {
    std::vector<int32_t> tokens;  // of prompt and answer
    size_t n_shared = 0;
  };
  static Turn turn(Engine& engine, const std::vector<int32_t>& prompt, int64_t n_new = 70) {
    SequenceOptions wanted = greedy(n_new);
    wanted.sampling.temperature = 0.8f;
    wanted.sampling.seed = 7;
    const auto sequence = engine.start(prompt, wanted);
    while (!engine.idle()) engine.step();
    return {{sequence->tokens().begin(), sequence->tokens().end()}, sequence->n_shared()};
  }
  static void save(Engine& engine) {
    while (engine.has_to_save()) engine.save_one();
  }

  // A conversation of three turns, each after a restart. Answers equal those of an engine whose
  // cache is in memory. If all rows have the same kernels, they also equal those without a cache.
  void continue_conversation(const std::string& architecture, kernels::KvType type,
                             const kernels::KernelTable* table) {
    write_model({.architecture = architecture, .type = quant::Type::kQ4_K, .n_context = 1024});
    fs::remove_all(folder_ + "/sessions");
    std::vector<int32_t> prompt = random_tokens(300, 300, 1);
    EngineOptions on_disk = options(type);
    on_disk.kernels = table;
    EngineOptions in_memory = on_disk;
    in_memory.sessions = {};
    Engine kept(model_, in_memory);
    for (unsigned i = 0; i < 3; ++i) {
      const auto [expected, n_shared] = turn(kept, prompt);
      if (!table->has_read_kernels) {
        Engine alone(model_, {.n_threads = 1, .kv_type = type, .kernels = table});
        EXPECT_EQ(turn(alone, prompt).tokens, expected) << architecture << " turn " << i;
      }
      Engine engine(model_, on_disk);
      const Turn found = turn(engine, prompt);
      EXPECT_EQ(found.tokens, expected) << architecture << " turn " << i;
      EXPECT_EQ(found.n_shared, n_shared) << architecture << " turn " << i;
      EXPECT_EQ(n_shared > 0, i > 0);
      save(engine);
      prompt = expected;
      const std::vector<int32_t> more = random_tokens(40, 300, 20 + i);
      prompt.insert(prompt.end(), more.begin(), more.end());
    }
  }

  TestFolder temporary_;
  const std::string folder_ = temporary_.path();
  const std::string model_ = folder_ + "/model.gguf";
};

TEST_F(SessionsTest, ConversationContinuesAfterEachRestart) {
  for (const char* architecture : {"llama", "qwen2", "gemma3"}) {
    for (const kernels::KvType type : {kernels::KvType::kInt16, kernels::KvType::kQ8_0,
                                       kernels::KvType::kQ4_0, kernels::KvType::kF32}) {
      if (type != kernels::KvType::kInt16 && architecture != std::string("llama")) continue;
      continue_conversation(architecture, type, uniform_table());
      if (kernels::select_table().has_read_kernels)
        continue_conversation(architecture, type, &kernels::select_table());
    }
  }
}

TEST_F(SessionsTest, OtherModelOrKvTypeStartsFromTheBeginning) {
  write_model({.type = quant::Type::kQ4_K, .seed = 1});
  const std::vector<int32_t> prompt = random_tokens(200, 300, 1);
  {
    Engine engine(model_, options());
    turn(engine, prompt);
    save(engine);
  }
  {
    Engine engine(model_, options(kernels::KvType::kQ8_0));
    EXPECT_EQ(turn(engine, prompt).n_shared, 0u);
    save(engine);
  }
  {
    Engine engine(model_, options());  // each KV type has its own files
    EXPECT_EQ(turn(engine, prompt).n_shared, 192u);
  }
  write_model({.type = quant::Type::kQ4_K, .seed = 2});
  Engine engine(model_, options());
  Engine alone(model_, {.n_threads = 1});
  const Turn found = turn(engine, prompt);
  EXPECT_EQ(found.n_shared, 0u);
  EXPECT_EQ(found.tokens, turn(alone, prompt).tokens);
}

TEST_F(SessionsTest, LoadedKvCountsAsMemory) {
  write_model({.type = quant::Type::kQ4_K});
  const std::vector<int32_t> prompt = random_tokens(400, 300, 1);
  {
    Engine engine(model_, options());
    turn(engine, prompt);
    save(engine);
  }
  Engine engine(model_, options());
  EXPECT_EQ(engine.memory().kv_cached, 0u);
  EXPECT_EQ(engine.memory().kv_in_use, 0u);
  EXPECT_EQ(turn(engine, prompt).n_shared, 384u);
  const MemoryUse use = engine.memory();
  EXPECT_EQ(use.kv_cached, use.kv_in_use);
  EXPECT_EQ(use.kv_cached, (400 + 69) / 64 * use.kv_block);
}

// Long texts evict each other's KV. When a text returns, its KV is read from disk.
TEST_F(SessionsTest, EvictedTextsAreReadFromDisk) {
  write_model({.type = quant::Type::kQ4_K});
  std::vector<std::vector<int32_t>> prompts;
  for (unsigned i = 0; i < 5; ++i) prompts.push_back(random_tokens(300, 300, i));
  EngineOptions wanted = options();
  {
    const Engine engine(model_, wanted);
    wanted.max_cached = 8 * engine.memory().kv_block;
  }
  Engine engine(model_, wanted);
  Engine alone(model_, {.n_threads = 1});
  std::mt19937 random(3);
  for (int round = 0; round < 30; ++round) {
    const std::vector<int32_t>& prompt = prompts[random() % prompts.size()];
    const Turn found = turn(engine, prompt, 10);
    EXPECT_EQ(found.tokens, turn(alone, prompt, 10).tokens);
    EXPECT_LE(engine.memory().kv_cached, wanted.max_cached);
    EXPECT_TRUE(round <= 20 || found.n_shared == 256) << found.n_shared;
    save(engine);
  }
}

TEST_F(SessionsTest, ATextIsOnDiskUntilItIsForgotten) {
  write_model({.type = quant::Type::kQ4_K});
  const std::vector<int32_t> prompt = random_tokens(300, 300, 1);
  Engine engine(model_, options());
  const Turn first = turn(engine, prompt);
  EXPECT_EQ(engine.text_on_disk(first.tokens).n_tokens, 0u);
  save(engine);
  EXPECT_EQ(engine.text_on_disk(first.tokens, AdapterFiles{{.path = "adapter.gguf"}}).n_tokens, 0u)
      << "KV with an adapter is never written";
  const kv::TextKv on_disk = engine.text_on_disk(first.tokens);
  EXPECT_EQ(on_disk.n_tokens, 320u);
  EXPECT_EQ(on_disk.n_bytes, 5 * engine.memory().kv_block);
  EXPECT_EQ(engine.forget_text(random_tokens(300, 300, 2)).n_tokens, 0u);
  EXPECT_EQ(engine.forget_text(first.tokens).n_tokens, 320u);
  EXPECT_EQ(engine.memory().kv_cached, 0u);
  EXPECT_EQ(engine.text_on_disk(first.tokens).n_tokens, 0u);
  const Turn again = turn(engine, prompt);
  EXPECT_EQ(again.n_shared, 0u);
  EXPECT_EQ(again.tokens, first.tokens);
}

TEST_F(SessionsTest, UnwritableFolderIsNoError) {
  write_model({.type = quant::Type::kQ4_K});
  std::ofstream(folder_ + "/sessions") << "a file";
  Engine engine(model_, options());
  turn(engine, random_tokens(200, 300, 1));
  EXPECT_FALSE(engine.has_to_save());
}

}  // namespace
}  // namespace billow::engine
