#include "llama/facts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "gguf/writer.h"
#include "llama/command.h"

namespace billow::llama {
namespace {

gguf::Writer strange_model() {
  gguf::Writer writer;
  writer.set_string("general.architecture", "strange");
  writer.set_uint("strange.block_count", 2);
  writer.set_uint("strange.context_length", 4096);
  writer.set_uint("strange.embedding_length", 64);
  writer.set_uint("strange.attention.head_count", 4);
  return writer;
}

Facts facts(const gguf::Writer& writer, const FactsOptions& options = {}) {
  const std::vector<std::byte> bytes = writer.to_bytes();
  return facts_of(gguf::File::parse(bytes, "test"), options);
}

TEST(Facts, SupportsUnknownArchitecture) {
  const Facts found = facts(strange_model());
  EXPECT_EQ(found.architecture, "strange");
  EXPECT_EQ(found.max_context, 4096u);
  EXPECT_EQ(found.embedding_length, 64u);
  EXPECT_EQ(found.pooling, "");
  // 2 layers, 4 heads of 16 + 16 values, 2 bytes each.
  EXPECT_EQ(found.memory.kv_bytes(256), 256u * 2 * 4 * 32 * 2);
  EXPECT_EQ(found.memory.kv_bytes(257), 512u * 2 * 4 * 32 * 2);
  EXPECT_GT(found.memory.weight_bytes, 0u);
}

TEST(Facts, KvFollowsHeadsLengthsAndType) {
  gguf::Writer writer = strange_model();
  writer.set_ints("strange.attention.head_count_kv", std::vector<int32_t>{1, 0});
  writer.set_uint("strange.attention.key_length", 32);
  writer.set_uint("strange.attention.value_length", 64);
  EXPECT_EQ(facts(writer).memory.kv_bytes(256), 256u * 96 * 2);
  EXPECT_EQ(facts(writer, {.kv_type = kernels::KvType::kF32}).memory.kv_bytes(256), 256u * 96 * 4);
  EXPECT_EQ(facts(writer, {.kv_type = kernels::KvType::kQ8_0}).memory.kv_bytes(256),
            256u * 96 / 32 * 34);
  EXPECT_EQ(facts(writer, {.kv_type = kernels::KvType::kQ4_0}).memory.kv_bytes(256),
            256u * 96 / 32 * 18);
  EXPECT_EQ(facts(writer, {.max_context = 100}).max_context, 100u);
}

TEST(Facts, HugeSizesDoNotOverflow) {
  gguf::Writer writer = strange_model();
  writer.set_uint("strange.attention.key_length", 0xFFFFFFFF);
  writer.set_uint("strange.attention.head_count_kv", 0xFFFFFFFF);
  writer.set_uint("strange.block_count", 0xFFFFFFFF);
  EXPECT_GT(facts(writer).memory.kv_bytes(256), uint64_t{1} << 50);
}

TEST(Facts, RefusesOtherFiles) {
  gguf::Writer adapter = strange_model();
  adapter.set_string("general.type", "adapter");
  EXPECT_THROW(facts(adapter), Error);
  gguf::Writer bare;
  bare.set_string("general.architecture", "strange");
  EXPECT_THROW(facts(bare), Error);
  gguf::Writer empty = strange_model();
  empty.set_uint("strange.block_count", 0);
  EXPECT_THROW(facts(empty), Error);
}

TEST(Command, HasOnePoolForAllAnswers) {
  const std::vector<std::string> command = command_of({.program = "/bin/llama-server",
                                                       .model = "/m",
                                                       .socket = "/s.sock",
                                                       .n_cells = 1024,
                                                       .n_parallel = 3,
                                                       .n_threads = 2,
                                                       .kv_type = kernels::KvType::kQ8_0,
                                                       .n_gpu_layers = 7});
  EXPECT_EQ(command.front(), "/bin/llama-server");
  const auto value = [&](const char* name) -> std::string {
    const auto at = std::ranges::find(command, name);
    return at == command.end() || at + 1 == command.end() ? "" : *(at + 1);
  };
  EXPECT_EQ(value("--ctx-size"), "1024");
  EXPECT_EQ(value("--parallel"), "3");
  EXPECT_EQ(value("--cache-type-k"), "q8_0");
  EXPECT_EQ(value("--n-gpu-layers"), "7");
  EXPECT_EQ(value("--threads-batch"), "2");
  EXPECT_NE(std::ranges::find(command, "--kv-unified"), command.end());
}

}  // namespace
}  // namespace billow::llama
