// Tests the engine on real models: equal to the reference, equal alone and batched, and memory use.
// Tests of a model that is not installed are skipped with its name.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "arch/scratch.h"
#include "engine/divergence.h"
#include "engine/generation.h"
#include "engine/tiny_engine.h"
#include "gguf/writer.h"
#include "kernels/kv_names.h"
#include "kv/test_resident.h"
#include "reference/reference_model.h"

namespace billow::engine {
namespace {

const char* const kText =
    "The river had been rising since morning, and by noon the lower road was gone. Martha counted "
    "the sheep again, "
    "found one missing, and sent the boy up the hill with a lantern although it was not dark. "
    "\"Follow the wall,\" she "
    "said, \"and when the wall ends, stop.\" He had never gone beyond it; nobody had, in his "
    "lifetime. 17 * 23 = 391.";

std::filesystem::path model_path(const std::string& name) {
  const char* folder = std::getenv("BILLOW_TEST_MODELS");
  if (folder != nullptr) return std::filesystem::path(folder) / name;
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home ? home : "/root") / ".cache/billow/models" / name;
}

class RealModel : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    path_ = model_path(GetParam()).string();
    if (!std::filesystem::exists(path_))
      GTEST_SKIP() << path_ << " is not there; tools/setup models fetches it";
  }
  std::string path_;
};

struct Fidelity {
  double mean_divergence = 0.0;
  double same_best = 0.0;
};

Fidelity compare(std::span<const float> expected, std::span<const float> found, size_t n_vocab) {
  Fidelity result;
  const auto n = static_cast<double>(expected.size() / n_vocab);
  for (size_t at = 0; at < expected.size(); at += n_vocab) {
    const auto p = expected.subspan(at, n_vocab);
    const auto q = found.subspan(at, n_vocab);
    result.mean_divergence += divergence(p, q) / n;
    const auto best_p = std::max_element(p.begin(), p.end()) - p.begin();
    const auto best_q = std::max_element(q.begin(), q.end()) - q.begin();
    result.same_best += (best_p == best_q ? 1.0 : 0.0) / n;
  }
  return result;
}

TEST_P(RealModel, EveryKernelTableStaysCloseToTheReference) {
  const gguf::File file = gguf::File::open(path_);
  const reference::ReferenceModel model(file);
  const bool is_smollm2 = path_.find("smollm2") != std::string::npos;
  std::vector<int32_t> tokens;
  std::vector<float> expected;
  const kernels::KernelTable* used = &kernels::select_table("");
  for (const kernels::KernelTable* table : usable_tables()) {
    for (const auto& [kv_type, max] : {std::pair{kernels::KvType::kInt16, is_smollm2 ? 5e-3 : 2e-3},
                                       {kernels::KvType::kQ8_0, 1e-2},
                                       {kernels::KvType::kQ4_0, 0.2}}) {
      // Fidelity tries the other formats with every table, on generated models.
      if (kv_type != kernels::KvType::kInt16 && table != used) continue;
      Engine engine(path_, {.kv_type = kv_type, .kernels = table});
      if (tokens.empty()) tokens = engine.tokenizer().encode(kText);
      if (expected.empty()) expected = model.logits(tokens);
      const Fidelity result = compare(expected, logits_of(engine, tokens), model.n_vocab());
      std::printf("%s, kernels %s, KV %s: mean KL %.2e over %zu tokens, same best token %.1f %%\n",
                  GetParam(), std::string(table->name).c_str(),
                  std::string(name_of(kv_type)).c_str(), result.mean_divergence, tokens.size(),
                  100 * result.same_best);
      EXPECT_LT(result.mean_divergence, max);
    }
  }
}

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double ab = 0.0;
  double aa = 0.0;
  double bb = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = static_cast<double>(a[i]);
    const double y = static_cast<double>(b[i]);
    ab += x * y;
    aa += x * x;
    bb += y * y;
  }
  return ab / std::sqrt(aa * bb);
}

TEST_P(RealModel, VectorsOfSimilarTextsAreCloser) {
  Engine engine(path_, {});
  std::vector<std::shared_ptr<const Embedding>> vectors;
  for (const char* text :
       {"A small cat is sleeping on the warm sofa.", "The little kitten sleeps on a soft couch.",
        "Quarterly revenue rose by 12 percent to 4.1 billion."})
    vectors.push_back(engine.embed(engine.tokenizer().encode(text)));
  while (!engine.idle()) engine.step();
  for (const auto& one : vectors) {
    ASSERT_EQ(one->vector().size(), engine.model().n_embd);
    for (const float value : one->vector()) ASSERT_TRUE(std::isfinite(value));
  }
  const double similar = cosine(vectors[0]->vector(), vectors[1]->vector());
  EXPECT_GT(similar, cosine(vectors[0]->vector(), vectors[2]->vector()));
  EXPECT_GT(similar, cosine(vectors[1]->vector(), vectors[2]->vector()));
}

TEST_P(RealModel, SameTokensAloneAndBatchedWithOneOrTwoThreads) {
  SequenceOptions options;
  options.sampling.seed = 123;
  options.max_new_tokens = 24;
  options.ignore_eos = true;
  std::vector<int32_t> expected;
  for (const int n_threads : {1, 2}) {
    for (const size_t n_others : {size_t{0}, size_t{7}}) {
      Engine engine(path_, {.n_threads = n_threads});
      const std::vector<int32_t> prompt = engine.tokenizer().encode(kText);
      for (size_t i = 0; i < n_others; ++i) {
        const std::vector<int32_t> other =
            engine.tokenizer().encode(std::string(kText).substr(10 * i, 40 + 20 * i));
        engine.start(other, options);
      }
      const auto sequence = engine.start(prompt, options);
      while (!engine.idle()) engine.step();
      const std::vector<int32_t> answer(
          sequence->tokens().begin() + static_cast<long>(prompt.size()), sequence->tokens().end());
      if (expected.empty()) expected = answer;
      EXPECT_EQ(answer, expected) << n_threads << " threads, " << n_others << " others";
    }
  }
}

// The engine uses weights directly from the mapped file. In addition to file and KV it may take
// 64 MiB.
// Counts only anonymous memory. Where the page cache has huge pages, a lookup of one row of the
// mapped file counts as 2 MiB of resident memory, although the process takes none.
TEST_P(RealModel, MemoryStaysWithinFilePlusKvPlus64MiB) {
  const size_t before = kv::status_bytes("RssAnon");
  Engine engine(path_);
  std::string text;
  while (text.size() < 6000) text += kText;
  std::vector<int32_t> prompt = engine.tokenizer().encode(text);
  prompt.resize(1024);
  SequenceOptions options;
  options.max_new_tokens = 16;
  options.ignore_eos = true;
  engine.start(prompt, options);
  size_t max = 0;
  size_t kv = 0;
  while (!engine.idle()) {
    engine.step();
    max = std::max(max, kv::status_bytes("RssAnon"));
    kv = std::max(kv, engine.kv_bytes());
  }
  const size_t allowed = engine.file().n_bytes() + kv + (size_t{64} << 20);
  std::printf("%s: resident %.1f MiB, file %.1f + KV %.1f MiB\n", GetParam(),
              static_cast<double>(max) / 0x1p20,
              static_cast<double>(engine.file().n_bytes()) / 0x1p20,
              static_cast<double>(kv) / 0x1p20);
  EXPECT_LE(max, allowed + before);
}

// The scratch bound is granted before the first pass, so it must be neither too low nor much too
// high.
TEST_P(RealModel, ScratchStaysWithinAndCloseToItsBound) {
  Engine engine(path_, {.max_context = 1024});
  const size_t bound =
      arch::max_scratch_bytes(engine.loaded(), engine.kernels(),
                              {.n_rows = 512,
                               .n_logit_rows = 8,
                               .n_positions = engine.max_context(),
                               .n_threads = static_cast<size_t>(engine.n_threads())});
  SequenceOptions options;
  options.max_new_tokens = 4;
  options.ignore_eos = true;
  engine.start(random_tokens(512, engine.tokenizer().n_tokens(), 1), options);
  engine.step();
  const size_t full_batch = engine.memory().scratch;
  std::printf("%s: scratch %.1f MiB of a bound of %.1f MiB\n", GetParam(),
              static_cast<double>(full_batch) / 0x1p20, static_cast<double>(bound) / 0x1p20);
  EXPECT_LE(full_batch, bound);
  EXPECT_GE(full_batch, bound * 6 / 10);
  for (unsigned i = 0; i < 7; ++i)
    engine.start(random_tokens(20 + i, engine.tokenizer().n_tokens(), i), options);
  while (!engine.idle()) engine.step();
  EXPECT_LE(engine.memory().scratch, bound);
}

// Compares the estimated KV memory of a context with the growth of resident memory once it is full.
TEST_P(RealModel, EM_5_EstimateEqualsResidentGrowth) {
  Engine engine(path_, {.max_context = 4096});
  const auto evaluated = [&](size_t n) {
    const auto sequence =
        engine.start(random_tokens(n, engine.tokenizer().n_tokens(), 1), greedy(1));
    while (sequence->n_pending() > 1) engine.step(sequence->n_pending() - 1);
    const size_t resident = kv::status_bytes("RssAnon");
    engine.finish(*sequence, FinishReason::kStop);
    return resident;
  };
  (void)evaluated(4096);  // allocates scratch
  const kv::Layout layout(engine.model().kv, kv::KvType::kInt16);
  constexpr double kHugePage = 0x1p21;  // the system gives huge pages, for each group of layers
  const auto n_pools = static_cast<double>(layout.groups.size());
  const size_t before = kv::status_bytes("RssAnon");
  for (const size_t n : {size_t{1024}, size_t{4096}}) {
    const auto estimate = static_cast<double>(layout.bytes_for(n, 512));
    const auto growth = static_cast<double>(evaluated(n) - before);
    std::printf("%s: %zu tokens of KV estimated %.2f MiB, measured %.2f\n", GetParam(), n,
                estimate / 0x1p20, growth / 0x1p20);
    EXPECT_NEAR(growth, estimate, 0.05 * estimate + kHugePage * n_pools);
  }
}

// GR-21: when a sequence ends, the engine returns its KV memory to the system immediately.
TEST_P(RealModel, GR_21_FreesMemoryWhenASequenceEnds) {
  Engine engine(path_, {.max_context = 4096});
  SequenceOptions options;
  options.max_new_tokens = 2;
  (void)engine.start(random_tokens(100, engine.tokenizer().n_tokens(), 1), options);
  while (!engine.idle()) engine.step();  // allocates scratch and vocabulary
  const auto sequence =
      engine.start(random_tokens(3000, engine.tokenizer().n_tokens(), 2), options);
  size_t kv = 0;
  size_t running = 0;
  while (!sequence->finished()) {
    running = kv::status_bytes("VmRSS");
    kv = engine.kv_bytes();
    engine.step();
  }
  const size_t after = kv::status_bytes("VmRSS");
  std::printf("%s: KV %.1f MiB, resident %.1f MiB, then %.1f\n", GetParam(),
              static_cast<double>(kv) / 0x1p20, static_cast<double>(running) / 0x1p20,
              static_cast<double>(after) / 0x1p20);
  EXPECT_GT(kv, size_t{16} << 20);
  EXPECT_LE(after + kv * 9 / 10, running + (size_t{4} << 20));
}

// A context of 32,768 tokens, or of the model's max, that holds 500 tokens takes the memory of 500.
TEST_P(RealModel, LargeContextTakesOnlyMemoryOfItsTokens) {
  const auto held = [&](size_t max_context) {
    Engine engine(path_, {.max_context = max_context});
    SequenceOptions options;
    options.context.sizes = {max_context};
    options.max_new_tokens = 1;
    (void)engine.start(random_tokens(499, engine.tokenizer().n_tokens(), 2), options);
    engine.step(498);
    return std::pair(engine.memory().kv_backed, kv::status_bytes("RssAnon"));
  };
  const gguf::File file = gguf::File::open(path_);
  const auto max = std::min<uint64_t>(
      32768, file.require_uint(std::string(file.require_string("general.architecture")) +
                               ".context_length"));
  (void)held(512);
  const auto [small_kv, small_resident] = held(512);
  const auto [large_kv, large_resident] = held(max);
  std::printf("%s: KV %.1f MiB in a context of 512, %.1f in one of %zu\n", GetParam(),
              static_cast<double>(small_kv) / 0x1p20, static_cast<double>(large_kv) / 0x1p20,
              static_cast<size_t>(max));
  EXPECT_EQ(small_kv, large_kv);
  EXPECT_LE(large_resident, small_resident + (size_t{16} << 20));
}

// Two prompts begin with the same 2,000 tokens. The second is evaluated only after these tokens.
TEST_P(RealModel, EvaluatesASharedPrefixOnce) {
  Engine engine(path_, {.max_context = 4096, .max_cached = UINT64_MAX});
  const std::vector<int32_t> beginning = random_tokens(2000, engine.tokenizer().n_tokens(), 2);
  SequenceOptions options;
  options.sampling.temperature = 0.0f;
  options.max_new_tokens = 8;
  options.ignore_eos = true;
  std::vector<int32_t> answers[2];
  double seconds[2];
  for (const bool sharing : {false, true}) {
    std::vector<int32_t> prompt = beginning;
    for (const int32_t token : random_tokens(20, engine.tokenizer().n_tokens(), sharing ? 4 : 3))
      prompt.push_back(token);
    const auto start = std::chrono::steady_clock::now();
    const auto sequence = engine.start(prompt, options);
    while (sequence->n_generated() == 0) engine.step();
    seconds[sharing ? 1 : 0] =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    while (!sequence->finished()) engine.step();
    EXPECT_EQ(sequence->n_shared(), sharing ? 1984u : 0u);
    answers[0].assign(sequence->tokens().begin(), sequence->tokens().end());
  }
  std::printf("%s: first token after %.0f ms, after a shared prefix %.0f ms (%.1f %%)\n",
              GetParam(), 1e3 * seconds[0], 1e3 * seconds[1], 100 * seconds[1] / seconds[0]);
  Engine plain(path_, {.max_context = 4096});
  const auto alone = plain.start({answers[0].begin(), answers[0].end() - 8}, options);
  while (!alone->finished()) plain.step();
  answers[1].assign(alone->tokens().begin(), alone->tokens().end());
  EXPECT_EQ(answers[0], answers[1]);
}

INSTANTIATE_TEST_SUITE_P(
    Files, RealModel,
    testing::Values("smollm2-135m-q4_1.gguf", "qwen2.5-coder-0.5b-q4_k_m.gguf",
                    "gemma3-270m-q4_k_m.gguf"),
    [](const testing::TestParamInfo<const char*>& file) {
      return std::string(file.param).substr(0, std::string(file.param).find_first_of("-."));
    });

// CP-10: after five compactions, a capable model still knows a fact from the prompt.
TEST(RealModelPrompt, CP_10_SurvivesCompactions) {
  const std::string path = model_path("qwen2.5-coder-0.5b-q4_k_m.gguf").string();
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << path << " is not there; tools/setup models fetches it";
  for (const auto policy : {context::OverflowPolicy::kRefill, context::OverflowPolicy::kShift}) {
    Engine engine(path, {.max_context = 512});
    const auto& tokenizer = engine.tokenizer();
    const std::vector<int32_t> prompt = tokenizer.encode(
        "The pass key is 71432. Remember it: 71432 is the pass key.\n\nThe grass is green.");
    SequenceOptions options;
    options.max_new_tokens = 450;
    options.ignore_eos = true;
    options.sampling.seed = 5;
    options.context = {.max_context = 128, .policy = policy, .compaction = {2, 8}};
    const auto sequence = engine.start(prompt, options);
    while (!sequence->finished()) engine.step();
    EXPECT_GE(sequence->events().size(), 5u);
    std::vector<int32_t> question;
    for (size_t i = 0; i < sequence->n_evaluated(); ++i) question.push_back(sequence->token_at(i));
    for (const int32_t token :
         tokenizer.encode("\n\nWhat is the pass key? The pass key is", {.add_special = false}))
      question.push_back(token);
    SequenceOptions few;
    few.sampling.temperature = 0.0f;
    few.max_new_tokens = 12;
    Generation answer(engine, question, few, {});
    std::string text;
    while (!answer.finished())
      for (const Engine::Token& token : engine.step()) text += answer.accept(token);
    text += answer.finish();
    EXPECT_NE(text.find("71432"), std::string::npos) << text;
  }
}

// The engine computes float formats in floating point, so converted weights give almost exactly the
// reference's logits.
TEST(RealModelConverted, FloatWeightsEqualTheReference) {
  const std::string path = model_path("smollm2-135m-q4_1.gguf").string();
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << path << " is not there; tools/setup models fetches it";
  const gguf::File file = gguf::File::open(path);
  for (const quant::Type type : {quant::Type::kF16, quant::Type::kBF16}) {
    gguf::Writer writer;
    for (const gguf::Entry& entry : file.metadata()) writer.set(entry.key, entry.value);
    std::vector<std::vector<std::byte>> converted;
    for (const gguf::TensorInfo& tensor : file.tensors()) {
      const std::span<const uint64_t> shape(tensor.shape.data(), tensor.n_dims);
      if (tensor.n_dims == 1) {
        writer.add_tensor(tensor.name, tensor.type, shape, tensor.data);
        continue;
      }
      std::vector<float> values(tensor.n_elements());
      quant::find_type(tensor.type)->decode(tensor.data.data(), values.size(), values.data());
      std::vector<std::byte>& bytes = converted.emplace_back(quant::row_bytes(type, values.size()));
      quant::row(type).encode(values.data(), values.size(), bytes.data());
      writer.add_tensor(tensor.name, static_cast<uint32_t>(type), shape, bytes);
    }
    const std::vector<std::byte> bytes = writer.to_bytes();
    const gguf::File reference_file = gguf::File::parse(bytes, "converted");
    const reference::ReferenceModel model(reference_file);
    std::vector<float> expected;
    for (const kernels::KernelTable* table : usable_tables()) {
      Engine engine(gguf::File::parse(bytes, "converted"), {.kernels = table});
      const std::vector<int32_t> tokens = engine.tokenizer().encode(kText);
      if (expected.empty()) expected = model.logits(tokens);
      const Fidelity result = compare(expected, logits_of(engine, tokens), model.n_vocab());
      std::printf("SmolLM2 %s, kernels %s: mean KL %.2e, same best token %.1f %%\n",
                  std::string(quant::row(type).name).c_str(), std::string(table->name).c_str(),
                  result.mean_divergence, 100 * result.same_best);
      const bool whole_floats = table->of(type).input->kind == kernels::InputKind::kF32;
      EXPECT_LT(result.mean_divergence, whole_floats ? 1e-5 : 1e-3);
    }
  }
}

}  // namespace
}  // namespace billow::engine
