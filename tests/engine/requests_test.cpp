// Tests how the engine handles requests: limits, ends, refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "engine/generation.h"
#include "engine/perplexity.h"
#include "engine/tiny_engine.h"
#include "reference/reference_model.h"

namespace billow::engine {
namespace {

std::string refusal(Engine& engine, std::vector<int32_t> prompt, const SequenceOptions& options) {
  try {
    engine.start(std::move(prompt), options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Requests, RefusesPromptsThatCannotRun) {
  TinyEngine tiny({}, {.max_context = 100, .max_sequences = 2});
  EXPECT_NE(refusal(tiny.engine, {}, greedy(1)).find("empty"), std::string::npos);
  EXPECT_NE(refusal(tiny.engine, {5, 300}, greedy(1)).find("300"), std::string::npos);
  EXPECT_NE(refusal(tiny.engine, {-1}, greedy(1)).find("-1"), std::string::npos);
  const std::string too_long = refusal(tiny.engine, random_tokens(101, 300, 1), greedy(1));
  EXPECT_NE(too_long.find("101 tokens"), std::string::npos) << too_long;
  EXPECT_NE(too_long.find("context of 100"), std::string::npos) << too_long;
  SequenceOptions bad = greedy(1);
  bad.sampling.top_p = 7.0f;
  EXPECT_NE(refusal(tiny.engine, {1}, bad).find("top_p"), std::string::npos);
  EXPECT_TRUE(tiny.engine.idle());
  EXPECT_EQ(refusal(tiny.engine, random_tokens(100, 300, 1), greedy(1)), "");
  EXPECT_EQ(refusal(tiny.engine, {1}, greedy(1)), "");
  EXPECT_NE(refusal(tiny.engine, {1}, greedy(1)).find("2 sequences"), std::string::npos);
}

TEST(Requests, StopsAtTheLimitAndAtTheEndOfTheContext) {
  TinyEngine tiny({}, {.max_context = 100});
  const auto five = tiny.engine.start({1, 2, 3}, greedy(5));
  const auto none = tiny.engine.start({1, 2, 3}, greedy(0));
  const auto endless = tiny.engine.start(random_tokens(90, 300, 1), greedy(-1));
  while (!tiny.engine.idle()) tiny.engine.step();
  EXPECT_EQ(five->n_generated(), 5u);
  EXPECT_EQ(none->n_generated(), 0u);
  EXPECT_EQ(none->n_evaluated(), 3u);
  EXPECT_EQ(endless->n_evaluated(), 100u);  // the last token takes no position
  EXPECT_EQ(endless->tokens().size(), 101u);
  EXPECT_EQ(endless->finish_reason(), FinishReason::kLength);
  EXPECT_EQ(tiny.engine.kv_bytes(), 0u);
}

// FI-9: a token with a NaN in its embedding makes all later logits of its sequence NaN.
TEST(Requests, FI_9_NanLogitsEndOnlyTheirSequence) {
  std::vector<std::byte> bytes = reference::make_tiny_model({});
  size_t at = 0;
  {
    const gguf::File file = gguf::File::parse(bytes, "tiny.gguf");
    const gguf::TensorInfo* embedding = file.find_tensor("token_embd.weight");
    at = static_cast<size_t>(embedding->data.data() - bytes.data()) +
         77 * embedding->shape[0] * sizeof(float);
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + at, &nan, sizeof nan);
  Engine engine(gguf::File::parse(bytes, "tiny.gguf"), {.max_cached = UINT64_MAX});
  std::vector<int32_t> good = random_tokens(100, 70, 1);
  const auto alone = engine.start(good, greedy(20));
  while (!engine.idle()) engine.step();
  std::vector<int32_t> bad = good;
  bad.push_back(77);
  const auto failing = engine.start(bad, greedy(20));
  const auto other = engine.start(good, greedy(20));
  while (!engine.idle()) engine.step();
  EXPECT_EQ(failing->finish_reason(), FinishReason::kFailed);
  EXPECT_NE(failing->error().find("finite"), std::string::npos) << failing->error();
  EXPECT_TRUE(std::ranges::equal(other->tokens(), alone->tokens()));
  EXPECT_EQ(engine.start(bad, greedy(1))->n_shared(), 0u);
}

TEST(Requests, HeldSequenceGetsNoTokensAndLosesNone) {
  TinyEngine tiny({});
  const auto held = tiny.engine.start(random_tokens(20, 300, 1), greedy(30));
  const auto other = tiny.engine.start(random_tokens(20, 300, 2), greedy(30));
  for (int i = 0; i < 5; ++i) tiny.engine.step();
  const size_t n = held->n_generated();
  tiny.engine.hold(*held, true);
  while (!other->finished()) tiny.engine.step();
  EXPECT_EQ(held->n_generated(), n);
  EXPECT_TRUE(tiny.engine.step().empty());
  tiny.engine.hold(*held, false);
  while (!tiny.engine.idle()) tiny.engine.step();
  const auto alone = tiny.engine.start(random_tokens(20, 300, 1), greedy(30));
  while (!tiny.engine.idle()) tiny.engine.step();
  EXPECT_TRUE(std::ranges::equal(held->tokens(), alone->tokens()));
}

TEST(Requests, SequenceCanOutliveItsEngine) {
  std::shared_ptr<const Sequence> sequence;
  {
    TinyEngine tiny({}, {.max_cached = 1 << 20, .max_draft = 0});
    sequence = tiny.engine.start(random_tokens(100, 300, 1), greedy(100));
    for (int i = 0; i < 10; ++i) tiny.engine.step();
  }
  EXPECT_TRUE(sequence->finished());
  EXPECT_EQ(sequence->n_generated(), 10u);
}

TEST(Requests, ReportsMemoryUse) {
  const reference::TinyModelOptions model{.type = quant::Type::kQ8_0};
  TinyEngine tiny(model, {.max_context = 100, .max_sequences = 2});
  const MemoryUse before = tiny.engine.memory();
  EXPECT_EQ(before.file, tiny.bytes.size());
  EXPECT_GT(before.packed, 0u);
  EXPECT_GT(before.kv_reserved, 0u);
  EXPECT_EQ(before.kv_max, 0u);
  EXPECT_EQ(before.scratch, 0u);
  const auto sequence = tiny.engine.start(random_tokens(70, 300, 1), greedy(2));
  (void)tiny.engine.step();
  const MemoryUse running = tiny.engine.memory();
  // 70 positions are two blocks of 64. Each of two sequences may take two blocks and two more for
  // a gap. Texts that become vectors may take as much as one sequence.
  EXPECT_EQ(running.kv_in_use, before.kv_reserved / 6);
  EXPECT_GT(running.scratch, 0u);
  while (!tiny.engine.idle()) tiny.engine.step();
  EXPECT_EQ(tiny.engine.memory().kv_in_use, 0u);
  EXPECT_EQ(tiny.engine.memory().kv_max, running.kv_in_use);
  EXPECT_EQ(TinyEngine(model, {.pack_weights = false}).engine.memory().packed, 0u);
}

TEST(Requests, GreedyChoosesTheReferencesBestToken) {
  const reference::TinyModelOptions options{.architecture = "qwen2"};
  TinyEngine tiny(options);
  const std::vector<int32_t> prompt = random_tokens(40, 300, 9);
  const auto sequence = tiny.engine.start(prompt, greedy(20));
  while (!tiny.engine.idle()) tiny.engine.step();
  const reference::ReferenceModel model(tiny.engine.file());
  const std::vector<float> logits = model.logits(sequence->tokens().first(59), 39);
  for (size_t i = 0; i < 20; ++i) {
    const auto row = std::span(logits).subspan(i * model.n_vocab(), model.n_vocab());
    const auto best = std::max_element(row.begin(), row.end()) - row.begin();
    EXPECT_EQ(sequence->tokens()[40 + i], best) << "token " << i;
  }
}

TEST(Requests, StopStringEndsTheSequenceAndIsNotShown) {
  TinyEngine tiny({});
  const std::vector<int32_t> prompt = tiny.engine.tokenizer().encode("stop strings");
  std::string whole;
  {
    Generation generation(tiny.engine, prompt, greedy(40), {});
    while (!generation.finished()) {
      for (const Engine::Token& token : tiny.engine.step()) whole += generation.accept(token);
    }
    whole += generation.finish();
  }
  ASSERT_GT(whole.size(), 12u);
  const std::string stop = whole.substr(8, 3);
  std::string cut;
  Generation generation(tiny.engine, prompt, greedy(40), {stop});
  while (!generation.finished()) {
    for (const Engine::Token& token : tiny.engine.step()) cut += generation.accept(token);
  }
  cut += generation.finish();
  EXPECT_EQ(cut, whole.substr(0, whole.find(stop)));
  EXPECT_EQ(generation.sequence().finish_reason(), FinishReason::kStop);
  EXPECT_TRUE(tiny.engine.idle());
}

TEST(Requests, PerplexityEqualsTheReferences) {
  TinyEngine tiny({});
  const std::vector<int32_t> tokens = random_tokens(130, 300, 4);
  const Perplexity found = perplexity(tiny.engine, tokens, 64, [](const Perplexity&, size_t) {});
  EXPECT_EQ(found.n_chunks, 2u);
  EXPECT_EQ(found.n_scored, 62u);
  const reference::ReferenceModel model(tiny.engine.file());
  double sum = 0.0;
  for (size_t chunk = 0; chunk < 2; ++chunk) {
    std::vector<int32_t> part(tokens.begin() + static_cast<long>(64 * chunk),
                              tokens.begin() + static_cast<long>(64 * chunk + 64));
    if (tiny.engine.tokenizer().add_bos()) part[0] = tiny.engine.tokenizer().bos();
    const std::vector<float> logits = model.logits(part, 32);
    for (size_t i = 0; i < 31; ++i) {
      sum +=
          negative_log_likelihood(std::span(logits).subspan(i * model.n_vocab(), model.n_vocab()),
                                  tokens[64 * chunk + 33 + i]);
    }
  }
  EXPECT_NEAR(found.value, std::exp(sum / 62), 1e-3 * found.value);
  EXPECT_THROW(
      perplexity(tiny.engine, std::span(tokens).first(127), 64, [](const Perplexity&, size_t) {}),
      Error);
}

}  // namespace
}  // namespace billow::engine
