// Tests adapters (LoRA) of texts that become vectors: of encoders, and of decoders whose hidden
// states are pooled.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/describe.h"
#include "engine/embed/batcher.h"
#include "engine/embed/load.h"
#include "engine/embed/pass.h"
#include "engine/tiny_adapter.h"
#include "engine/tiny_embedder.h"

namespace billow::engine {
namespace {

using reference::TinyEncoderOptions;

constexpr uint64_t kPlenty = uint64_t{1} << 30;

EmbedText with(EmbedText text, const AdapterFiles& adapters) {
  text.adapters = adapters;
  return text;
}

std::vector<EmbedVector> one_by_one(EmbedModel& model, const std::vector<EmbedText>& texts) {
  std::vector<EmbedVector> vectors;
  for (const EmbedText& text : texts) vectors.push_back({vector_of(model, text), ""});
  return vectors;
}

void expect_equal(const std::vector<EmbedVector>& expected, const std::vector<EmbedVector>& found) {
  ASSERT_EQ(expected.size(), found.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(found[i].error, "");
    EXPECT_EQ(expected[i].values, found[i].values) << "text " << i;
  }
}

// Creates n adapters for a model, with different ranks.
std::vector<AdapterFiles> adapters_for(TinyAdapters& files, const gguf::File& model, size_t n,
                                       size_t rank = 4) {
  std::vector<AdapterFiles> made;
  for (size_t i = 0; i < n; ++i)
    made.push_back({{files.make(model, {.rank = rank + i, .seed = i + 1}).path}});
  return made;
}

// Returns 24 texts. Every fifth has no adapter, the others use the adapters in turn.
std::vector<EmbedText> mixed_texts(const std::vector<AdapterFiles>& adapters, size_t longest) {
  std::vector<EmbedText> texts;
  for (unsigned i = 0; i < 24; ++i) {
    const EmbedText text = random_text(1 + (i * 37) % longest, i);
    texts.push_back(i % 5 == 0 ? text : with(text, adapters[i % adapters.size()]));
  }
  return texts;
}

// The adapters change the embedding, all matrices and the classifier.
TEST(EncoderAdapter, EqualsMergedWeights) {
  TinyAdapters files;
  const auto all = [](const std::string& name) {
    return name != "position_embd.weight" && name != "token_types.weight";
  };
  for (const auto& [name, options] : reference::tiny_encoder_variants()) {
    const std::vector<std::byte> bytes = reference::make_tiny_encoder(options);
    const gguf::File model = gguf::File::parse(bytes, name);
    const auto first = files.make(model, {.size = 0.1f, .seed = 1, .changes = all});
    const auto second = files.make(model, {.rank = 7, .size = 0.1f, .seed = 2, .changes = all});
    auto half = second;
    half.factor *= 0.5f;
    TinyEncoder plain(bytes);
    TinyEncoder with_first(merged(model, {first}));
    TinyEncoder with_both(merged(model, {first, half}));
    TinyEncoder by_default(bytes, {.n_threads = 1, .adapters = {{first.path}}});
    for (const size_t n : {1u, 17u, 128u}) {
      const EmbedText text = random_text(n, static_cast<unsigned>(n));
      const Vector expected = vector_of(with_first.model, text);
      const Vector found = vector_of(plain.model, with(text, {{first.path}}));
      EXPECT_LT(error_of(expected, found), 2e-5) << name << ", " << n << " tokens";
      EXPECT_GT(error_of(expected, vector_of(plain.model, text)), 0.01) << name;
      EXPECT_EQ(vector_of(by_default.model, text), found) << name;
      EXPECT_LT(error_of(vector_of(with_both.model, text),
                         vector_of(plain.model, with(text, {{first.path}, {second.path, 0.5f}}))),
                2e-5)
          << name;
    }
  }
}

TEST(EncoderAdapter, BatchedTextsEqualSingleOnes) {
  TinyAdapters files;
  for (const quant::Type type : {quant::Type::kF32, quant::Type::kF16, quant::Type::kQ8_0}) {
    for (const char* architecture : {"bert", "nomic-bert"}) {
      const TinyEncoderOptions options{.architecture = architecture, .type = type};
      TinyEncoder alone(options);
      const auto adapters = adapters_for(files, alone.model.file(), 4);
      const std::vector<EmbedText> texts = mixed_texts(adapters, 128);
      const std::vector<EmbedVector> expected = one_by_one(alone.model, texts);
      for (const int n_threads : {1, 3}) {
        TinyEncoder tiny(options, {.n_threads = n_threads});
        expect_equal(expected, embedded(tiny.model, texts));
        EXPECT_LE(tiny.model.memory().scratch, tiny.model.memory().scratch_granted);
        EXPECT_LE(tiny.model.memory().held(), tiny.model.memory().budget);
      }
    }
  }
}

// A pass takes the described memory. One copy of an adapter serves all texts and passes.
TEST(EncoderAdapter, LedgerCountsEachAdapterOnce) {
  TinyAdapters files;
  const TinyEncoderOptions options{.type = quant::Type::kQ8_0, .n_context = 512};
  TinyEncoder tiny(options, {.n_threads = 2});
  const auto adapters = adapters_for(files, tiny.model.file(), 3, 32);
  uint64_t sum = 0;
  uint64_t scratch = 0;
  for (const AdapterFiles& one : adapters) {
    const Description described = describe(tiny.model.file(), {.n_threads = 2, .adapters = one});
    EXPECT_GT(described.adapter_bytes, 0u);
    sum += described.adapter_bytes;
    scratch = described.memory.scratch_bytes(512);
  }
  std::vector<EmbedText> texts;
  for (unsigned i = 0; i < 4; ++i) texts.push_back(with(random_text(512, i), adapters[i % 3]));
  for (size_t i = 0; i < 3; ++i) {
    embedded(tiny.model, texts);
    EXPECT_EQ(tiny.model.memory().adapters, sum);
    EXPECT_EQ(tiny.model.memory().adapters_cached, sum);
    EXPECT_EQ(tiny.model.memory().cached(), sum);
  }
  EXPECT_LE(tiny.model.memory().scratch_granted, scratch);
  tiny.model.set_memory_budget(1);
  EXPECT_EQ(tiny.model.memory().adapters, 0u);
  const std::vector<EmbedVector> few = [&] {
    tiny.model.set_memory_budget(kPlenty);
    return embedded(tiny.model, texts);
  }();
  TinyEncoder fresh(options, {.n_threads = 2});
  expect_equal(embedded(fresh.model, texts), few);
}

// Memory has room for one adapter at a time, so a pass loads its adapters one after another.
TEST(EncoderAdapter, PassLoadsAdaptersInTurnIfMemoryIsShort) {
  TinyAdapters files;
  const TinyEncoderOptions options{.type = quant::Type::kF16};
  TinyEncoder plenty(options, {.n_threads = 2});
  const auto adapters = adapters_for(files, plenty.model.file(), 3, 64);
  const std::vector<EmbedText> texts = mixed_texts(adapters, 128);
  const std::vector<EmbedVector> expected = embedded(plenty.model, texts);
  const MemoryUse use = plenty.model.memory();
  uint64_t largest = 0;
  for (const AdapterFiles& one : adapters)
    largest = std::max(largest, describe(plenty.model.file(), {.adapters = one}).adapter_bytes);
  const uint64_t min = use.weights + use.scratch_granted + largest;
  ASSERT_LT(min, use.held());
  TinyEncoder small(options, {.n_threads = 2, .memory_budget = min});
  expect_equal(expected, embedded(small.model, texts));
  EXPECT_LE(small.model.memory().held(), min);
  TinyEncoder none(options, {.n_threads = 2, .memory_budget = use.weights + use.scratch_granted});
  try {
    embedded(none.model, texts);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    EXPECT_NE(std::string(error.what()).find("adapter"), std::string::npos);
  }
}

TEST(EncoderAdapter, RefusesAdapterOfAnotherModelForItsTextOnly) {
  TinyAdapters files;
  const std::vector<std::byte> other = reference::make_tiny_encoder({.n_embd = 96, .n_ff = 160});
  const auto wrong = files.make(gguf::File::parse(other, "other.gguf"));
  const std::vector<std::byte> bytes = reference::make_tiny_encoder({});
  EmbedBatcher served(load_embed_models(gguf::File::parse(bytes, "tiny.gguf"), {}, {}));
  const EmbedText text = random_text(9, 1);
  const auto answers = served.embed(
      {.texts = {text, with(text, {{wrong.path}}), with(text, {{"/nowhere/adapter.gguf"}})}});
  ASSERT_TRUE(answers.has_value());
  EXPECT_EQ(answers->texts[0].error, "");
  for (const size_t i : {1u, 2u}) {
    EXPECT_EQ(answers->texts[i].status, 400);
    EXPECT_NE(answers->texts[i].error, "");
    EXPECT_EQ(answers->texts[i].error.find('\n'), std::string::npos);
  }
}

TEST(EncoderAdapter, AdapterWithNanFailsOnlyItsTexts) {
  TinyAdapters files;
  TinyEncoder tiny(TinyEncoderOptions{});
  const auto good = files.make(tiny.model.file(), {.seed = 1});
  const auto broken = files.make(tiny.model.file(), {.size = std::nanf(""), .seed = 2});
  const EmbedText text = random_text(20, 1);
  const auto found = embedded(tiny.model, std::vector<EmbedText>{with(text, {{broken.path}}), text,
                                                                 with(text, {{good.path}})});
  EXPECT_NE(found[0].error, "");
  EXPECT_EQ(found[1].values, vector_of(tiny.model, text));
  EXPECT_EQ(found[2].values, vector_of(tiny.model, with(text, {{good.path}})));
  const auto alone = embedded(tiny.model, std::vector<EmbedText>{with(text, {{broken.path}})});
  EXPECT_EQ(alone[0].error, found[0].error);
}

// Many clients, parallel passes, and adapters that are evicted and loaded again.
TEST(EncoderAdapter, ClientsWithDifferentAdaptersShareModelAndPasses) {
  TinyAdapters files;
  const TinyEncoderOptions options{.type = quant::Type::kQ8_0};
  TinyEncoder alone(options);
  const auto adapters = adapters_for(files, alone.model.file(), 5, 16);
  const std::vector<EmbedText> texts = mixed_texts(adapters, 100);
  const std::vector<EmbedVector> expected = one_by_one(alone.model, texts);
  const std::vector<std::byte> bytes = reference::make_tiny_encoder(options);
  const EmbedSettings sizes = {.n_batch = 256, .context_size = 1024, .max_batches = 2};
  EmbedBatcher batcher(
      load_embed_models(gguf::File::parse(bytes, "tiny.gguf"), {.n_threads = 2}, sizes),
      {.sizes = sizes});
  const uint64_t held = batcher.state().memory.held();
  std::atomic<size_t> n_answers{0};
  std::vector<std::thread> clients;
  for (size_t client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      for (size_t round = 0; round < 6; ++round) {
        const size_t first = (client * 5 + round * 3) % texts.size();
        std::vector<EmbedText> own(texts.begin() + static_cast<std::ptrdiff_t>(first), texts.end());
        const auto answers =
            batcher.embed({.texts = std::move(own), .client = std::to_string(client)});
        ASSERT_TRUE(answers.has_value());
        for (size_t i = 0; i < answers->texts.size(); ++i) {
          // A pass that begins with the small budget may not load its adapters.
          if (answers->texts[i].status == EmbedPass::kNoMemoryStatus) continue;
          n_answers.fetch_add(1);
          EXPECT_EQ(answers->texts[i].error, "");
          EXPECT_EQ(answers->texts[i].values, expected[first + i].values);
        }
        // Evicts cached adapters, so that the next pass loads them again.
        if (client == 0) batcher.set_memory_budget(round % 2 == 0 ? held : kPlenty, round + 1);
        if (client == 0) batcher.set_memory_budget(kPlenty, round + 100);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_GT(n_answers.load(), 100u);
}

TEST(DecoderModel, AdaptersEqualMergedWeightsForEachText) {
  TinyAdapters files;
  for (const char* architecture : {"llama", "qwen2"}) {
    const reference::TinyModelOptions options{
        .architecture = architecture, .n_context = 256, .pooling = 3};
    const std::vector<std::byte> bytes = reference::make_tiny_model(options);
    const gguf::File file = gguf::File::parse(bytes, "tiny.gguf");
    const auto first = files.make(file, {.seed = 1});
    const auto second = files.make(file, {.rank = 9, .seed = 2});
    const auto model = load_embed_model(gguf::File::parse(bytes, "tiny.gguf"), {.n_threads = 2});
    const auto expect_merged = [&](const TinyAdapters::Made& adapter, const EmbedText& text) {
      const std::vector<std::byte> whole = merged(file, {adapter});
      const auto other = load_embed_model(gguf::File::parse(whole, "m.gguf"), {.n_threads = 2});
      EXPECT_LT(error_of(vector_of(*other, text), vector_of(*model, with(text, {{adapter.path}}))),
                2e-3)
          << architecture;
    };
    expect_merged(first, random_text(30, 3));
    expect_merged(second, random_text(30, 4));
    const std::vector<EmbedText> texts =
        mixed_texts({{{first.path}}, {{second.path}}, {{first.path}, {second.path, 0.5f}}}, 200);
    expect_equal(one_by_one(*model, texts), embedded(*model, texts));
    EXPECT_LE(model->memory().scratch, model->memory().scratch_granted);
    EXPECT_LE(model->memory().held(), model->memory().budget);
    EXPECT_NE(model->refusal(with(texts[0], {{"/nowhere/adapter.gguf"}})), "");
  }
}

// Runs in parallel with a sequence that writes, with room for one adapter at a time.
TEST(Embedding, TextsWaitForAdapterMemory) {
  TinyAdapters files;
  const reference::TinyModelOptions model{.architecture = "llama", .n_context = 1024, .pooling = 1};
  TinyEngine tiny(model);
  std::vector<AdapterFiles> adapters;
  for (uint64_t seed = 1; seed <= 3; ++seed)
    adapters.push_back({{files.make(tiny.engine.file(), {.rank = 64, .seed = seed}).path}});
  const Description described = describe(tiny.engine.file(), {.adapters = adapters[0]});
  const uint64_t min = described.memory.weight_bytes + described.memory.kv_bytes(512) +
                       described.memory.scratch_bytes(512) + described.adapter_bytes;
  std::vector<Vector> expected;
  std::vector<std::vector<int32_t>> tokens;
  for (unsigned i = 0; i < 9; ++i) {
    tokens.push_back(random_tokens(20 + i, 300, i));
    const auto embedding = tiny.engine.embed(tokens.back(), adapters[i % 3]);
    while (!tiny.engine.idle()) tiny.engine.step();
    expected.push_back(embedding->vector());
  }
  for (const uint64_t budget : {min, min + described.adapter_bytes, kPlenty}) {
    TinyEngine small(model, {.memory_budget = budget});
    std::vector<std::shared_ptr<const Embedding>> embeddings;
    for (size_t i = 0; i < tokens.size(); ++i)
      embeddings.push_back(small.engine.embed(tokens[i], adapters[i % 3]));
    const auto sequence = small.engine.start(random_tokens(10, 300, 1), greedy(5));
    while (!small.engine.idle()) {
      small.engine.step();
      EXPECT_LE(small.engine.memory().held(), small.engine.memory().budget);
      EXPECT_LE(small.engine.memory().scratch, small.engine.memory().scratch_granted);
    }
    EXPECT_EQ(sequence->error(), "");
    for (size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_EQ(embeddings[i]->error(), "");
      EXPECT_EQ(embeddings[i]->vector(), expected[i]) << "text " << i << ", budget " << budget;
    }
  }
  TinyEngine too_small(model, {.memory_budget = min - described.adapter_bytes});
  EXPECT_THROW(too_small.engine.embed(tokens[0], adapters[0]), Error);
}

}  // namespace
}  // namespace billow::engine
