// Compares the engine's logits with the float reference, on generated models of every architecture
// and weight format.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "engine/divergence.h"
#include "engine/tiny_engine.h"
#include "kernels/kv_names.h"
#include "reference/reference_model.h"

namespace billow::engine {
namespace {

constexpr size_t kTokens =
    150;  // beyond windows, blocks and original contexts of the generated models

double mean_divergence(std::span<const float> expected, std::span<const float> found,
                       size_t n_vocab) {
  double sum = 0.0;
  for (size_t at = 0; at < expected.size(); at += n_vocab) {
    sum += divergence(expected.subspan(at, n_vocab), found.subspan(at, n_vocab));
  }
  return sum / static_cast<double>(expected.size() / n_vocab);
}

// Returns the allowed error: 8-bit activations and 16-bit floats are less exact than F32.
double bound(kernels::InputKind kind) {
  if (kind == kernels::InputKind::kCodes) return 5e-3;
  return kind == kernels::InputKind::kF32 ? 1e-5 : 1e-3;
}

// With sanitizers, these are only two tables: the tests of kernels run every table with sanitizers.
std::vector<const kernels::KernelTable*> tested_tables() {
  std::vector<const kernels::KernelTable*> tables = usable_tables();
#ifndef NDEBUG
  std::erase_if(tables, [](const kernels::KernelTable* table) {
    return table != &kernels::select_table() && table->name != std::string_view("scalar");
  });
#endif
  return tables;
}

TEST(Fidelity, EveryVariantOfEveryArchitectureEqualsTheReference) {
  for (const reference::TinyVariant& variant : reference::tiny_variants()) {
    const std::vector<std::byte> bytes = reference::make_tiny_model(variant.options);
    const gguf::File file = gguf::File::parse(bytes, variant.name);
    const reference::ReferenceModel model(file, variant.options.n_context);
    const std::vector<int32_t> tokens = random_tokens(kTokens, 300, 1);
    const std::vector<float> expected = model.logits(tokens);
    for (const kernels::KernelTable* table : tested_tables()) {
      TinyEngine tiny(variant.options, {.n_threads = 2, .kernels = table});
      const std::vector<float> found = logits_of(tiny.engine, tokens);
      ASSERT_EQ(found.size(), expected.size());
      EXPECT_LT(mean_divergence(expected, found, model.n_vocab()), 1e-5)
          << variant.name << " " << table->name;
    }
  }
}

// On every variant, 8-bit keys and values lose as little accuracy as 8-bit weights. Keys and values
// in 4 bits lose about (128 / 8)^2 times as much. Random weights are worse than trained ones.
TEST(Fidelity, KvInFewBitsStaysCloseToTheReference) {
  struct Case {
    kernels::KvType type;
    double min, max;
  };
  for (const reference::TinyVariant& variant : reference::tiny_variants()) {
    const std::vector<std::byte> bytes = reference::make_tiny_model(variant.options);
    const gguf::File file = gguf::File::parse(bytes, variant.name);
    const reference::ReferenceModel model(file, variant.options.n_context);
    const std::vector<int32_t> tokens = random_tokens(kTokens, 300, 1);
    const std::vector<float> expected = model.logits(tokens);
    for (const kernels::KernelTable* table : tested_tables()) {
      for (const Case& c :
           {Case{kernels::KvType::kQ8_0, 1e-9, 5e-3}, {kernels::KvType::kQ4_0, 1e-7, 0.8}}) {
        TinyEngine tiny(variant.options, {.n_threads = 1, .kv_type = c.type, .kernels = table});
        const std::vector<float> found = logits_of(tiny.engine, tokens);
        const double lost = mean_divergence(expected, found, model.n_vocab());
        EXPECT_LT(lost, c.max) << variant.name << " " << table->name << " " << name_of(c.type);
        EXPECT_GT(lost, c.min) << variant.name << ": the KV is not in " << name_of(c.type);
      }
    }
  }
}

TEST(Fidelity, EveryWeightFormatStaysCloseToTheReference) {
  for (const quant::TypeRow& type : quant::types()) {
    const reference::TinyModelOptions options{.type = type.type, .n_layers = 1, .n_ff = 768};
    const std::vector<std::byte> bytes = reference::make_tiny_model(options);
    const gguf::File file = gguf::File::parse(bytes, std::string(type.name));
#ifdef NDEBUG
    constexpr size_t kFormatTokens = kTokens;
#else  // with sanitizers each step takes ten times as long
    constexpr size_t kFormatTokens = kTokens / 3;
#endif
    const std::vector<int32_t> tokens = random_tokens(kFormatTokens, 300, 2);
    const reference::ReferenceModel model(file);
    const std::vector<float> expected = model.logits(tokens);
    std::vector<decltype(kernels::TypeKernels::gemm)> tested;  // overlays share their base's
    for (const kernels::KernelTable* table : tested_tables()) {
      const auto gemm = table->of(type.type).gemm;
      if (std::find(tested.begin(), tested.end(), gemm) != tested.end()) continue;
      tested.push_back(gemm);
      for (const bool pack : {true, false}) {
        Engine engine(gguf::File::parse(bytes, std::string(type.name)),
                      {.n_threads = 1, .pack_weights = pack, .kernels = table});
        const std::vector<float> found = logits_of(engine, tokens);
        EXPECT_LT(mean_divergence(expected, found, model.n_vocab()),
                  bound(table->of(type.type).input->kind))
            << type.name << " " << table->name << (pack ? " packed" : " as in the file");
      }
    }
  }
}

// The chunks of a prompt change no bit of the logits. Neither do windows, blocks and batches.
TEST(Fidelity, ChunksOfAPromptGiveTheSameBits) {
  for (const char* architecture : {"llama", "qwen2", "gemma3"}) {
    const reference::TinyModelOptions options{.architecture = architecture,
                                              .type = quant::Type::kQ8_0};
    const std::vector<int32_t> tokens = random_tokens(300, 300, 3);
    for (const kernels::KvType kv_type :
         {kernels::KvType::kInt16, kernels::KvType::kQ8_0, kernels::KvType::kQ4_0}) {
      std::vector<float> whole;
      for (const size_t n_batch : {512u, 64u, 7u, 1u}) {
        TinyEngine tiny(options, {.n_threads = 2, .n_batch = n_batch, .kv_type = kv_type});
        const std::vector<float> found = logits_of(tiny.engine, tokens, 250);
        if (whole.empty()) whole = found;
        ASSERT_EQ(found.size(), whole.size());
        EXPECT_EQ(std::memcmp(found.data(), whole.data(), whole.size() * sizeof(float)), 0)
            << architecture << " in chunks of " << n_batch;
      }
    }
  }
}

}  // namespace
}  // namespace billow::engine
