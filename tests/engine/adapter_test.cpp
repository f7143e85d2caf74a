// Tests of adapters (LoRA) of sequences: their results, batches with several adapters, shared
// prefixes, and memory in the ledger.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/describe.h"
#include "engine/tiny_adapter.h"
#include "engine/tiny_engine.h"

namespace billow::engine {
namespace {

constexpr uint64_t kPlenty = uint64_t{1} << 30;

reference::TinyModelOptions model_of(const char* architecture) {
  return {.architecture = architecture, .n_context = 1024, .window = 100};
}

SequenceOptions with(SequenceOptions options, const AdapterFiles& adapters) {
  options.adapters = adapters;
  options.sampling.logprobs = true;
  return options;
}

struct Answer {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  bool operator==(const Answer&) const = default;
};

struct Wanted {
  std::vector<int32_t> prompt;
  SequenceOptions options;
};

// Runs all wanted sequences in parallel, at most max_rows rows per step.
std::vector<Answer> run(Engine& engine, const std::vector<Wanted>& wanted,
                        size_t max_rows = SIZE_MAX) {
  std::vector<std::shared_ptr<const Sequence>> sequences;
  for (const Wanted& one : wanted) sequences.push_back(engine.start(one.prompt, one.options));
  std::vector<Answer> answers(wanted.size());
  while (!engine.idle()) {
    for (const Engine::Token& token : engine.step(max_rows)) {
      const auto at = std::ranges::find(sequences, token.sequence) - sequences.begin();
      answers[static_cast<size_t>(at)].tokens.push_back(token.sampled.token);
      answers[static_cast<size_t>(at)].logprobs.push_back(token.sampled.logprob);
    }
    EXPECT_LE(engine.memory().scratch, engine.memory().scratch_granted);
    EXPECT_LE(engine.memory().held(), engine.memory().budget);
  }
  for (const auto& sequence : sequences) EXPECT_EQ(sequence->error(), "");
  return answers;
}

std::string error_of(const std::function<void()>& what) {
  try {
    what();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Compares one adapter, and a scaled sum of two, with models whose weights contain the same change.
// The first adapter also changes the embedding, unless the output is the same tensor.
TEST(Adapter, EqualsMergedWeights) {
  TinyAdapters files;
  const std::vector<int32_t> tokens = random_tokens(40, 300, 7);
  for (const char* architecture : {"llama", "qwen2", "gemma3"}) {
    const auto options = model_of(architecture);
    const std::vector<std::byte> bytes = reference::make_tiny_model(options);
    const gguf::File model = gguf::File::parse(bytes, "tiny.gguf");
    const bool is_tied = model.find_tensor("output.weight") == nullptr;
    const auto all = [&](const std::string& name) {
      return !is_tied || name != "token_embd.weight";  // merging would change the output, too
    };
    auto first = files.make(model, {.seed = 1, .changes = all});
    auto second = files.make(model, {.rank = 7, .alpha = 0.0f, .seed = 2});
    second.factor = 1.0f;  // without an alpha, only the scale applies
    const auto logits = [&](const std::vector<std::byte>& of, const AdapterFiles& adapters) {
      Engine engine(gguf::File::parse(of, "tiny.gguf"),
                    {.n_threads = 1, .kv_type = kernels::KvType::kF32, .adapters = adapters});
      return logits_of(engine, tokens);
    };
    const auto expect_near = [&](const std::vector<float>& a, const std::vector<float>& b) {
      float largest = 0.0f;
      for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
      EXPECT_LT(largest, 2e-3f) << architecture;
    };
    const std::vector<float> plain = logits(bytes, {});
    const std::vector<float> with_first = logits(bytes, {{first.path}});
    expect_near(with_first, logits(merged(model, {first}), {}));
    float change = 0.0f;
    for (size_t i = 0; i < plain.size(); ++i)
      change = std::max(change, std::abs(plain[i] - with_first[i]));
    EXPECT_GT(change, 1.0f) << architecture;
    auto half = first;
    half.factor *= 0.5f;
    auto twice = second;
    twice.factor *= -2.0f;
    expect_near(logits(bytes, {{first.path, 0.5f}, {second.path, -2.0f}}),
                logits(merged(model, {half, twice}), {}));
    EXPECT_EQ(logits(bytes, {{first.path, 0.0f}}), plain) << architecture;
  }
}

// An adapter of a tied embedding changes the rows that are looked up. The output, which is the same
// tensor, does not change.
TEST(Adapter, TiedEmbeddingAdapterChangesOnlyLookups) {
  TinyAdapters files;
  reference::TinyModelOptions options = model_of("llama");
  options.tied = true;
  const std::vector<std::byte> tied = reference::make_tiny_model(options);
  const gguf::File model = gguf::File::parse(tied, "tiny.gguf");
  const auto is_table = [](const std::string& name) { return name == "token_embd.weight"; };
  const auto adapter = files.make(model, {.changes = is_table});
  // The merged model uses the unchanged table as its output.
  const std::vector<std::byte> bytes = merged(model, {adapter});
  gguf::Writer writer;
  const gguf::File changed = gguf::File::parse(bytes, "merged.gguf");
  for (const gguf::Entry& entry : changed.metadata()) writer.set(entry.key, entry.value);
  for (const gguf::TensorInfo& tensor : changed.tensors()) {
    writer.add_tensor(tensor.name, tensor.type, std::span(tensor.shape).first(tensor.n_dims),
                      tensor.data);
  }
  const gguf::TensorInfo& old = *model.find_tensor("token_embd.weight");
  writer.add_tensor("output.weight", old.type, std::span(old.shape).first(2), old.data);
  const std::vector<int32_t> tokens = random_tokens(30, 300, 3);
  Engine with_adapter(
      gguf::File::parse(tied, "tiny.gguf"),
      {.n_threads = 1, .kv_type = kernels::KvType::kF32, .adapters = {{adapter.path}}});
  const std::vector<std::byte> with_output = writer.to_bytes();
  Engine expected(gguf::File::parse(with_output, "tiny.gguf"),
                  {.n_threads = 1, .kv_type = kernels::KvType::kF32});
  const std::vector<float> got = logits_of(with_adapter, tokens);
  const std::vector<float> wanted = logits_of(expected, tokens);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-3f);
}

// One batch has sequences of four adapters and of the plain model, with randomly chunked prompts.
// Each sequence gets the same tokens and log probabilities as alone, to the bit.
TEST(Adapter, BatchedSequencesEqualSingleOnes) {
  TinyAdapters files;
  const std::pair<const char*, quant::Type> models[] = {
      {"llama", quant::Type::kQ4_K}, {"qwen2", quant::Type::kF32}, {"gemma3", quant::Type::kQ4_0}};
  for (const auto& [architecture, type] : models) {
    reference::TinyModelOptions model = model_of(architecture);
    model.type = type;
    const std::vector<std::byte> bytes = reference::make_tiny_model(model);
    const gguf::File file = gguf::File::parse(bytes, "tiny.gguf");
    std::vector<AdapterFiles> kinds = {{}};
    for (uint64_t seed = 1; seed <= 4; ++seed)
      kinds.push_back({{files.make(file, {.rank = 1 + 3 * seed, .seed = seed}).path}});
    std::vector<Wanted> wanted;
    std::vector<Answer> expected;
    TinyEngine alone(model, {.n_threads = 2});
    for (unsigned i = 0; i < 7; ++i) {
      wanted.push_back(
          {random_tokens(5 + i % 3 * 20, 300, i % 3), with(greedy(6), kinds[i % kinds.size()])});
      expected.push_back(run(alone.engine, {wanted.back()})[0]);
    }
    for (const int n_threads : {1, 3}) {
      TinyEngine together(model, {.n_threads = n_threads, .n_batch = 64});
      EXPECT_EQ(run(together.engine, wanted, 17), expected) << architecture;
    }
    EXPECT_NE(expected[0], expected[3]) << "the same prompt, another adapter";
  }
}

// A cached prefix is used only for the adapter that evaluated it.
TEST(Adapter, AdaptersDoNotSharePrefixes) {
  TinyAdapters files;
  TinyEngine tiny(model_of("llama"), {.max_cached = kPlenty});
  const std::vector<AdapterFiles> kinds = {{},
                                           {{files.make(tiny.engine.file(), {.seed = 1}).path}},
                                           {{files.make(tiny.engine.file(), {.seed = 2}).path}}};
  const std::vector<int32_t> prompt = random_tokens(200, 300, 1);
  std::vector<Answer> answers;
  for (const AdapterFiles& kind : kinds) {
    const auto sequence = tiny.engine.start(prompt, with(greedy(10), kind));
    while (!sequence->finished()) tiny.engine.step();
    EXPECT_EQ(sequence->n_shared(), 0u);
    EXPECT_EQ(tiny.engine.latest_prefixes(5, kind).size(), 1u);
  }
  for (const AdapterFiles& kind : kinds) {
    TinyEngine fresh(model_of("llama"));
    const auto again = tiny.engine.start(prompt, with(greedy(10), kind));
    const auto expected = fresh.engine.start(prompt, with(greedy(10), kind));
    while (!again->finished()) tiny.engine.step();
    while (!expected->finished()) fresh.engine.step();
    EXPECT_EQ(again->n_shared(), 192u);
    EXPECT_TRUE(std::ranges::equal(again->tokens(), expected->tokens()));
  }
}

// Sequences share one loaded copy of an adapter. Idle adapters stay cached until running sequences
// need their memory.
TEST(Adapter, LedgerCountsSharedAdapterOnceAndEvictsIdleOnes) {
  TinyAdapters files;
  reference::TinyModelOptions model = model_of("llama");
  TinyEngine tiny(model);
  std::vector<AdapterFiles> kinds;
  for (uint64_t seed = 1; seed <= 3; ++seed)
    kinds.push_back({{files.make(tiny.engine.file(), {.rank = 64, .seed = seed}).path}});
  const Description described = describe(tiny.engine.file(), {.adapters = kinds[0]});
  const uint64_t one = described.adapter_bytes;
  EXPECT_GT(one, 0u);
  const std::vector<int32_t> prompt = random_tokens(20, 300, 1);
  const auto first = tiny.engine.start(prompt, with(greedy(5), kinds[0]));
  const auto second = tiny.engine.start(prompt, with(greedy(5), kinds[0]));
  tiny.engine.step();
  EXPECT_EQ(tiny.engine.memory().adapters, one);
  EXPECT_EQ(tiny.engine.memory().adapters_cached, 0u);
  EXPECT_EQ(tiny.engine.memory().scratch_granted,
            describe(tiny.engine.file(), {.n_parallel = 8, .adapters = kinds[0]})
                .memory.scratch_bytes(512));
  while (!tiny.engine.idle()) tiny.engine.step();
  EXPECT_EQ(tiny.engine.memory().adapters_cached, one);
  EXPECT_EQ(tiny.engine.memory().cached(), one);
  // There is room for two: the third evicts the least recently used one.
  tiny.engine.set_memory_budget(tiny.engine.memory().held() + 3 * one / 2 +
                                tiny.engine.need().kv_bytes(512));
  run(tiny.engine, {{prompt, with(greedy(2), kinds[1])}});
  EXPECT_EQ(tiny.engine.memory().adapters_cached, 2 * one);
  run(tiny.engine, {{prompt, with(greedy(2), kinds[2])}});
  EXPECT_EQ(tiny.engine.memory().adapters_cached, 2 * one);
  // A smaller budget evicts all adapters. They are loaded again when needed.
  tiny.engine.set_memory_budget(1);
  EXPECT_EQ(tiny.engine.memory().adapters, 0u);
  EXPECT_EQ(tiny.engine.memory().adapters_evicted, 3 * one);
  tiny.engine.set_memory_budget(kPlenty);
  TinyEngine fresh(model);
  EXPECT_EQ(run(tiny.engine, {{prompt, with(greedy(5), kinds[1])}}),
            run(fresh.engine, {{prompt, with(greedy(5), kinds[1])}}));
}

// If the adapters do not all fit into memory, sequences wait for one another. Each gets its answer.
TEST(Adapter, SequencesWaitForAdapterMemory) {
  TinyAdapters files;
  const reference::TinyModelOptions model = model_of("llama");
  TinyEngine tiny(model);
  std::vector<Wanted> wanted;
  std::vector<Answer> expected;
  for (unsigned i = 0; i < 6; ++i) {
    const auto adapter = files.make(tiny.engine.file(), {.rank = 64, .seed = uint64_t{1} + i % 4});
    wanted.push_back({random_tokens(30, 300, i), with(greedy(6), {{adapter.path}})});
    TinyEngine alone(model);
    expected.push_back(run(alone.engine, {wanted.back()})[0]);
  }
  const Description described =
      describe(tiny.engine.file(), {.adapters = wanted[0].options.adapters});
  const uint64_t min = described.memory.weight_bytes + described.memory.kv_bytes(512) +
                       described.memory.scratch_bytes(512) + described.adapter_bytes;
  for (const uint64_t more : {uint64_t{0}, described.adapter_bytes * 3 / 2}) {
    TinyEngine small(model, {.memory_budget = min + more});
    EXPECT_EQ(run(small.engine, wanted), expected);
    EXPECT_GT(small.engine.ledger().account().n_refused, 0u);
  }
  TinyEngine too_small(model, {.memory_budget = min - described.adapter_bytes});
  EXPECT_NE(error_of([&] {
              too_small.engine.start(wanted[0].prompt, wanted[0].options);
            }).find("adapters"),
            std::string::npos);
}

TEST(Adapter, RefusesUnsuitableFilesWithOneLineErrors) {
  TinyAdapters files;
  TinyEngine tiny(model_of("llama"));
  const gguf::File& model = tiny.engine.file();
  const auto made = files.make(model);
  const gguf::File good = gguf::File::open(made.path);
  struct Case {
    const char* expected;
    std::function<void(gguf::Writer&)> change;
    std::function<std::string(const std::string&)> rename = {};
    const char* left_out = "";
  };
  const std::string some = "blk.0.attn_q.weight";
  const std::vector<float> values(1 << 12, 0.5f);
  const std::vector<float> broken(1 << 12, std::nanf(""));
  const auto add = [&](gguf::Writer& writer, const std::string& name, uint64_t cols, uint64_t rows,
                       const std::vector<float>& from) {
    const uint64_t shape[] = {cols, rows};
    writer.add_tensor(name, 0, shape, std::as_bytes(std::span(from)).first(cols * rows * 4));
  };
  const Case cases[] = {
      {"is not \"adapter\"", [](auto& w) { w.set_string("general.type", "model"); }},
      {"only \"lora\"", [](auto& w) { w.set_string("adapter.type", "ia3"); }},
      {"architecture \"qwen2\"", [](auto& w) { w.set_string("general.architecture", "qwen2"); }},
      {"aLoRA", [](auto& w) { w.set_uint("adapter.alora.invocation_tokens", 1); }},
      {"not a finite number", [](auto& w) { w.set_float("adapter.lora.alpha", std::nanf("")); }},
      {"attn_q.weight.lora_b is missing", [](auto&) {}, {}, "blk.0.attn_q.weight.lora_b"},
      {"not part of a low-rank pair",
       [&](auto& w) { add(w, "blk.0.attn_norm.weight", 256, 1, values); }},
      {"which the model does not have",
       [&](auto& w) {
         add(w, "blk.9.attn_q.weight.lora_a", 256, 2, values);
         add(w, "blk.9.attn_q.weight.lora_b", 2, 256, values);
       }},
      {"not a matrix that the model multiplies with",
       [&](auto& w) {
         add(w, "blk.0.attn_norm.weight.lora_a", 256, 2, values);
         add(w, "blk.0.attn_norm.weight.lora_b", 2, 1, values);
       }},
      {"do not have the shapes",
       [&](auto& w) { add(w, some + ".lora_b", 4, 128, values); },
       {},
       "blk.0.attn_q.weight.lora_b"},
      {"do not have the shapes",
       [&](auto& w) { add(w, some + ".lora_a", 128, 4, values); },
       {},
       "blk.0.attn_q.weight.lora_a"},
      {"not finite numbers",
       [&](auto& w) { add(w, some + ".lora_b", 4, 256, broken); },
       {},
       "blk.0.attn_q.weight.lora_b"},
  };
  for (const Case& one : cases) {
    gguf::Writer writer;
    for (const gguf::Entry& entry : good.metadata()) writer.set(entry.key, entry.value);
    for (const gguf::TensorInfo& tensor : good.tensors()) {
      if (tensor.name == one.left_out) continue;
      writer.add_tensor(tensor.name, tensor.type, std::span(tensor.shape).first(tensor.n_dims),
                        tensor.data);
    }
    one.change(writer);
    const std::string path = files.new_path();
    writer.write(path);
    std::string error;
    const auto try_it = [&] {
      const auto sequence = tiny.engine.start({1, 2, 3}, with(greedy(2), {AdapterFile{path}}));
      while (!sequence->finished()) tiny.engine.step();
      if (!sequence->error().empty()) throw Error(ErrorCode::kInvalidInput, sequence->error());
    };
    error = error_of(try_it);
    EXPECT_NE(error.find(one.expected), std::string::npos) << one.expected << ": " << error;
    EXPECT_NE(error.find(path), std::string::npos) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    EXPECT_EQ(tiny.engine.memory().adapters, 0u) << one.expected;
  }
  EXPECT_NE(error_of([&] {
              tiny.engine.start({1}, with(greedy(1), {AdapterFile{"/nonexistent/a.gguf"}}));
            }).find("/nonexistent/a.gguf"),
            std::string::npos);
  // The engine still works.
  EXPECT_EQ(run(tiny.engine, {{{1, 2, 3}, with(greedy(3), {{made.path}})}})[0].tokens.size(), 3u);
}

}  // namespace
}  // namespace billow::engine
