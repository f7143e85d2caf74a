// Tests vectors of texts: equal to the reference, equal alone and batched, and their memory use.
#include "engine/embedding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/error.h"
#include "engine/describe.h"
#include "engine/tiny_engine.h"
#include "reference/reference_model.h"

namespace billow::engine {
namespace {

using Vector = std::vector<float>;

std::vector<Vector> vectors_of(Engine& engine, const std::vector<std::vector<int32_t>>& texts) {
  std::vector<std::shared_ptr<const Embedding>> embeddings;
  for (const std::vector<int32_t>& text : texts) embeddings.push_back(engine.embed(text));
  while (!engine.idle()) engine.step();
  std::vector<Vector> vectors;
  for (const auto& embedding : embeddings) {
    EXPECT_TRUE(embedding->finished());
    EXPECT_EQ(embedding->error(), "");
    vectors.push_back(embedding->vector());
  }
  return vectors;
}

std::vector<std::vector<int32_t>> texts_of(std::span<const size_t> lengths) {
  std::vector<std::vector<int32_t>> texts;
  for (const size_t n : lengths)
    texts.push_back(random_tokens(n, 300, static_cast<unsigned>(texts.size())));
  return texts;
}

// Pools hidden states. `pooling` is the value of the file's pooling_type key.
Vector pooled(const Vector& hidden, size_t n_embd, uint32_t pooling) {
  const size_t n = hidden.size() / n_embd;
  if (pooling == 2) return {hidden.begin(), hidden.begin() + static_cast<std::ptrdiff_t>(n_embd)};
  if (pooling == 3) return {hidden.end() - static_cast<std::ptrdiff_t>(n_embd), hidden.end()};
  Vector mean(n_embd);
  for (size_t i = 0; i < n_embd; ++i) {
    double sum = 0.0;
    for (size_t row = 0; row < n; ++row) sum += static_cast<double>(hidden[row * n_embd + i]);
    mean[i] = static_cast<float>(sum / static_cast<double>(n));
  }
  return mean;
}

// Returns |found - expected| / |expected|.
double error_of(const Vector& expected, const Vector& found) {
  double difference = 0.0;
  double length = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double e = static_cast<double>(expected[i]);
    difference += std::pow(e - static_cast<double>(found[i]), 2);
    length += e * e;
  }
  return std::sqrt(difference / length);
}

TEST(Embedding, EqualsTheReferenceWithEveryPooling) {
  for (const char* architecture : {"llama", "qwen2", "gemma3"}) {
    for (const uint32_t pooling : {1u, 2u, 3u}) {
      const reference::TinyModelOptions model{.architecture = architecture, .pooling = pooling};
      TinyEngine tiny(model, {.n_threads = 2, .n_batch = 64});
      const reference::ReferenceModel reference(tiny.engine.file());
      const size_t lengths[] = {1, 5, 64, 150};
      const auto texts = texts_of(lengths);
      const std::vector<Vector> found = vectors_of(tiny.engine, texts);
      for (size_t i = 0; i < texts.size(); ++i) {
        const Vector expected = pooled(reference.hidden(texts[i]), model.n_embd, pooling);
        ASSERT_EQ(found[i].size(), expected.size());
        EXPECT_LT(error_of(expected, found[i]), 5e-3)
            << architecture << ", pooling " << pooling << ", " << lengths[i] << " tokens";
      }
    }
  }
}

TEST(Embedding, PoolsLastHiddenStateIfTheFileNamesNoPooling) {
  TinyEngine silent({});
  TinyEngine last({.pooling = 3});
  const size_t lengths[] = {9};
  EXPECT_EQ(vectors_of(silent.engine, texts_of(lengths)),
            vectors_of(last.engine, texts_of(lengths)));
}

// Other rows in the batch and the chunks of a text change no bit.
TEST(Embedding, EQ_5_SameBitsAloneAndBatched) {
  for (const uint32_t pooling : {1u, 2u, 3u}) {
    const reference::TinyModelOptions model{
        .architecture = "gemma3", .type = quant::Type::kQ4_K, .n_layers = 2, .pooling = pooling};
    std::vector<size_t> lengths;
    for (size_t i = 0; i < 20; ++i) lengths.push_back(1 + i * i % 97);
    const auto texts = texts_of(lengths);
    TinyEngine alone(model, {.n_threads = 1});
    std::vector<Vector> expected;
    for (const auto& text : texts) expected.push_back(vectors_of(alone.engine, {text})[0]);
    TinyEngine packed(model, {.n_threads = 2, .n_batch = 100});
    EXPECT_EQ(vectors_of(packed.engine, texts), expected);
    // In parallel with sequences that write and read prompts, a few rows at a time.
    TinyEngine mixed(model, {.n_threads = 2, .n_batch = 100});
    std::vector<std::shared_ptr<const Embedding>> embeddings;
    for (const auto& text : texts) embeddings.push_back(mixed.engine.embed(text));
    for (unsigned i = 0; i < 4; ++i)
      mixed.engine.start(random_tokens(30 + 60 * i, 300, i), greedy(20));
    while (!mixed.engine.idle()) mixed.engine.step(37);
    for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(embeddings[i]->vector(), expected[i]);
  }
}

TEST(Embedding, DoesNotChangeParallelAnswers) {
  TinyEngine tiny({}, {.max_draft = 0});
  const auto alone = tiny.engine.start(random_tokens(20, 300, 1), greedy(40));
  while (!tiny.engine.idle()) tiny.engine.step();
  const auto beside = tiny.engine.start(random_tokens(20, 300, 1), greedy(40));
  size_t n_steps = 0;
  for (; !beside->finished(); ++n_steps) {
    if (!tiny.engine.embeds()) tiny.engine.embed(random_tokens(1000, 300, 2));
    tiny.engine.step(64);
  }
  EXPECT_TRUE(std::ranges::equal(beside->tokens(), alone->tokens()));
  EXPECT_EQ(n_steps, 40u);  // one token per step
}

TEST(Embedding, StaysWithinGrantsAndFreesMemory) {
  const reference::TinyModelOptions model{.n_context = 512, .pooling = 1};
  TinyEngine tiny(model, {.n_threads = 2, .n_batch = 128, .max_cached = 1 << 24});
  const size_t before = tiny.engine.memory().kv_in_use;
  std::vector<size_t> lengths(50, 20);
  lengths.push_back(512);
  for (const auto& text : texts_of(lengths)) tiny.engine.embed(text);
  while (!tiny.engine.idle()) {
    tiny.engine.step();
    const MemoryUse use = tiny.engine.memory();
    EXPECT_LE(use.kv_in_use, use.kv_granted);
    EXPECT_LE(use.scratch, use.scratch_granted);
    EXPECT_LE(use.held(), use.budget);
  }
  const MemoryUse after = tiny.engine.memory();
  EXPECT_EQ(after.kv_in_use, before);
  EXPECT_EQ(after.kv_granted, 0u);
  EXPECT_EQ(after.kv_cached, 0u);
  EXPECT_EQ(after.kv_backed, 0u);
  EXPECT_GT(after.kv_max, 0u);
}

TEST(Embedding, WaitsUntilSequencesFreeMemory) {
  const reference::TinyModelOptions model{.n_context = 512};
  TinyEngine tiny(model, {.n_threads = 2, .max_sequences = 2});
  const size_t lengths[] = {400};
  const std::vector<Vector> expected = vectors_of(tiny.engine, texts_of(lengths));
  const auto sequence = tiny.engine.start(random_tokens(300, 300, 1), greedy(50));
  tiny.engine.step();
  const MemoryUse use = tiny.engine.memory();
  tiny.engine.set_memory_budget(use.held() + 1000);
  const auto waiting = tiny.engine.embed(random_tokens(400, 300, 0));
  tiny.engine.step();
  EXPECT_TRUE(tiny.engine.embeds_waiting());
  EXPECT_FALSE(waiting->finished());
  while (!tiny.engine.idle()) tiny.engine.step();
  EXPECT_TRUE(sequence->finished());
  EXPECT_EQ(sequence->n_generated(), 50u);
  EXPECT_EQ(waiting->vector(), expected[0]);
  // If no sequence can free memory, the embedding ends with an error.
  ASSERT_TRUE(tiny.engine.ledger().grant(context::MemoryClass::kWeights,
                                         tiny.engine.ledger().account().left()));
  EXPECT_THROW(tiny.engine.embed(random_tokens(400, 300, 0)), Error);
}

// Returns how many texts of `many` are finished when `one` finishes.
size_t n_finished_before(Engine& engine, const Embedding& one,
                         std::span<const std::shared_ptr<const Embedding>> many) {
  while (!one.finished()) engine.step();
  return static_cast<size_t>(std::ranges::count_if(many, &Embedding::finished));
}

TEST(Embedding, SendersTakeTurns) {
  TinyEngine tiny({.pooling = 1}, {.n_batch = 64});
  std::vector<std::shared_ptr<const Embedding>> many;
  for (unsigned i = 0; i < 40; ++i)
    many.push_back(tiny.engine.embed(random_tokens(60, 300, i), {}, {.client = "many"}));
  tiny.engine.step();
  const auto one = tiny.engine.embed(random_tokens(60, 300, 99), {}, {.client = "one"});
  // The texts that have memory, one text of the other sender before it, and those of the same pass.
  EXPECT_LE(n_finished_before(tiny.engine, *one, many), 5u);
  for (size_t i = 0; !tiny.engine.idle(); ++i) {
    tiny.engine.step();
    const auto is_unfinished = [](const auto& text) { return !text->finished(); };
    const auto first = std::ranges::find_if(many, is_unfinished);
    EXPECT_TRUE(std::all_of(first, many.end(), is_unfinished)) << "not in order, step " << i;
  }
}

TEST(Embedding, BulkTextsGetMemoryAfterAllOthers) {
  TinyEngine tiny({.pooling = 1}, {.n_batch = 64});
  const TextSender bulk = {.client = "bulk", .is_bulk = true};
  std::vector<std::shared_ptr<const Embedding>> many;
  for (unsigned i = 0; i < 20; ++i)
    many.push_back(tiny.engine.embed(random_tokens(60, 300, i), {}, bulk));
  tiny.engine.step();
  std::vector<std::shared_ptr<const Embedding>> others;
  for (unsigned i = 0; i < 20; ++i)
    others.push_back(tiny.engine.embed(random_tokens(60, 300, 50 + i), {}, {.client = "a"}));
  EXPECT_LE(n_finished_before(tiny.engine, *others.back(), many), 4u);
  while (!tiny.engine.idle()) tiny.engine.step();
  for (const auto& text : many) EXPECT_EQ(text->error(), "");
}

// A prompt goes before texts of bulk work, and shares passes with other texts.
TEST(Embedding, PromptsGoBeforeBulkTexts) {
  const auto steps_to_first_token = [](const TextSender& sender) {
    TinyEngine tiny({.pooling = 1}, {.n_batch = 64});
    for (unsigned i = 0; i < 30; ++i) tiny.engine.embed(random_tokens(100, 300, i), {}, sender);
    tiny.engine.step();
    const auto sequence = tiny.engine.start(random_tokens(256, 300, 7), greedy(1));
    size_t n_steps = 0;
    for (; !sequence->finished(); ++n_steps) tiny.engine.step();
    return n_steps;
  };
  EXPECT_EQ(steps_to_first_token({.client = "bulk", .is_bulk = true}), 4u);
  EXPECT_GT(steps_to_first_token({.client = "other"}), 4u);
}

// Random texts of random senders, with cancellations and too little memory: each text finishes with
// the vector that it has alone, or with an error if it was cancelled, and no memory is left over.
TEST(Embedding, RandomQueuesFinishEveryText) {
  std::mt19937 random(5);
  const reference::TinyModelOptions model{.n_context = 512, .pooling = 1};
  TinyEngine tiny(model, {.n_threads = 2, .n_batch = 64, .max_sequences = 2});
  std::vector<Vector> alone;
  std::vector<std::vector<int32_t>> kinds;
  for (unsigned i = 0; i < 8; ++i) kinds.push_back(random_tokens(1 + i * i * 7, 300, i));
  for (const auto& tokens : kinds) alone.push_back(vectors_of(tiny.engine, {tokens})[0]);
  struct Asked {
    std::shared_ptr<const Embedding> text;
    size_t kind;
    bool is_cancelled = false;
  };
  std::vector<Asked> asked;
  for (int i = 0; i < 400; ++i) {
    const size_t what = random() % 8;
    if (what < 4) {
      const size_t kind = random() % kinds.size();
      const TextSender sender = {std::string(1, static_cast<char>('a' + random() % 3)),
                                 random() % 3 == 0};
      try {
        asked.push_back({tiny.engine.embed(kinds[kind], {}, sender), kind});
      } catch (const Error& error) {  // the budget can never hold it
        EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
      }
    } else if (what == 4 && !asked.empty()) {
      Asked& one = asked[random() % asked.size()];
      one.is_cancelled = one.is_cancelled || !one.text->finished();
      tiny.engine.cancel(*one.text);
    } else if (what == 5) {
      const MemoryUse use = tiny.engine.memory();
      tiny.engine.set_memory_budget(random() % 2 == 0 ? use.held() + 1000 : UINT64_MAX / 4);
    } else {
      tiny.engine.step(1 + random() % 100);
    }
  }
  tiny.engine.set_memory_budget(UINT64_MAX / 4);
  while (!tiny.engine.idle()) tiny.engine.step();
  for (const Asked& one : asked) {
    ASSERT_TRUE(one.text->finished());
    if (one.is_cancelled)
      EXPECT_EQ(one.text->error(), "cancelled");
    else if (one.text->error().empty())
      EXPECT_EQ(one.text->vector(), alone[one.kind]);
    else
      EXPECT_NE(one.text->error().find("no memory"), std::string::npos) << one.text->error();
  }
  EXPECT_EQ(tiny.engine.memory().kv_in_use, 0u);
  EXPECT_EQ(tiny.engine.memory().kv_granted, 0u);
}

TEST(Embedding, CanBeCancelledAtAnyPoint) {
  TinyEngine tiny({.pooling = 1}, {.n_batch = 64});
  std::vector<std::shared_ptr<const Embedding>> embeddings;
  for (unsigned i = 0; i < 10; ++i)
    embeddings.push_back(tiny.engine.embed(random_tokens(100, 300, i)));
  tiny.engine.step();
  for (const size_t i : {0u, 1u, 5u, 9u}) tiny.engine.cancel(*embeddings[i]);
  while (!tiny.engine.idle()) tiny.engine.step();
  for (size_t i = 0; i < embeddings.size(); ++i) {
    EXPECT_TRUE(embeddings[i]->finished());
    EXPECT_EQ(embeddings[i]->vector().empty(), i == 0 || i == 1 || i == 5 || i == 9);
  }
  EXPECT_EQ(tiny.engine.memory().kv_in_use, 0u);
  EXPECT_EQ(tiny.engine.memory().kv_granted, 0u);
}

TEST(Embedding, RefusesTextsAndModelsWithoutVector) {
  TinyEngine tiny({.n_context = 128});
  EXPECT_THROW(tiny.engine.embed({}), Error);
  EXPECT_THROW(tiny.engine.embed({99999}), Error);
  EXPECT_THROW(tiny.engine.embed(random_tokens(129, 300, 1)), Error);
  EXPECT_EQ(vectors_of(tiny.engine, {random_tokens(128, 300, 1)})[0].size(), 256u);
  for (const uint32_t pooling : {0u, 4u, 9u}) {
    TinyEngine other({.pooling = pooling});
    try {
      other.engine.embed({1, 2});
      ADD_FAILURE() << pooling;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      EXPECT_NE(std::string(error.what()).find("pooling_type"), std::string::npos);
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
}

TEST(Describe, ReportsMemoryOfAnEngine) {
  for (const char* architecture : {"llama", "gemma3"}) {
    const reference::TinyModelOptions model{
        .architecture = architecture, .type = quant::Type::kQ8_0, .n_context = 512, .pooling = 1};
    TinyEngine tiny(model, {.n_threads = 2, .max_sequences = 1});
    // An embedding model writes no text, for any number of parallel requests.
    const Description description = describe(tiny.engine.file(), {.n_parallel = 3, .n_threads = 2});
    const MemoryUse use = tiny.engine.memory();
    EXPECT_EQ(description.memory, tiny.engine.need());
    EXPECT_EQ(description.memory.weight_bytes, use.weights);
    EXPECT_EQ(description.max_context, 512u);
    EXPECT_EQ(description.pooling, "mean");
    EXPECT_EQ(description.layout.groups.size(), architecture == std::string("gemma3") ? 2u : 1u);
    vectors_of(tiny.engine, {random_tokens(512, 300, 1)});
    EXPECT_EQ(description.memory.scratch_bytes(512), tiny.engine.memory().scratch_granted);
  }
}

// Earlier requests do not change the memory need of a request, because the scheduler grants exactly
// the described memory.
TEST(Describe, EqualsTheNeedOfAnEngineAfterAnyRequests) {
  std::mt19937 random(11);
  for (const char* architecture : {"llama", "qwen2", "gemma3"}) {
    const reference::TinyModelOptions model{
        .architecture = architecture, .type = quant::Type::kQ4_K, .n_context = 2048};
    for (const size_t n_parallel : {1u, 4u}) {
      TinyEngine tiny(model, {.n_threads = 2, .max_sequences = n_parallel});
      const context::MemoryNeed need =
          describe(tiny.engine.file(), {.n_parallel = n_parallel, .n_threads = 2}).memory;
      ASSERT_EQ(need, tiny.engine.need()) << architecture;
      size_t longest = 0;
      for (unsigned i = 0; i < 6; ++i) {
        const size_t n = 1 + random() % 1900;
        longest = std::max(longest, n + 1);
        // Exactly the need of this request, plus the scratch that is kept.
        tiny.engine.set_memory_budget(need.weight_bytes + need.scratch_bytes(longest) +
                                      need.kv_bytes(n <= 512   ? 512
                                                    : n < 1024 ? 1024
                                                               : 2048));
        if (random() % 2 == 0) {
          EXPECT_EQ(vectors_of(tiny.engine, {random_tokens(n, 300, i)})[0].size(), 256u);
        } else {
          const auto sequence = tiny.engine.start(random_tokens(n, 300, i), greedy(2));
          while (!tiny.engine.idle()) tiny.engine.step();
          EXPECT_EQ(sequence->error(), "") << n;
          EXPECT_EQ(sequence->n_generated(), 2u);
        }
        EXPECT_LE(tiny.engine.memory().held(), tiny.engine.memory().budget);
      }
    }
  }
}

}  // namespace
}  // namespace billow::engine
