// Tests every family of tests/families/data and ../shared/data/families. Logits equal those of
// transformers. The chunks of a prompt and parallel sequences change no bit. Quantised weights are
// close to the same weights as floats. If Billow does not support a family, its tests are skipped
// with the loader's error, unless the family is in kMustRun.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "convert/float_weights.h"
#include "engine/changed_file.h"
#include "engine/divergence.h"
#include "engine/event_text.h"
#include "engine/tiny_engine.h"
#include "families/family_files.h"
#include "gguf/tensor_type.h"

namespace billow::families {
namespace {

using engine::Engine;
using engine::EngineOptions;
using engine::logits_of;
using engine::Sampled;

// Families that must run. If one of them does not run, its test fails. Other families may run, too.
struct MustRun {
  const char* name;
  bool has_states;  // whether it has recurrent states
};
constexpr MustRun kMustRun[] = {
    {"afmoe", false},
    {"apertus", false},
    {"arcee", false},
    {"arwkv7", true},
    {"bailingmoe2", false},
    {"bloom", false},
    {"chatglm", false},
    {"cohere2", false},
    {"command-r", false},
    {"dbrx", false},
    {"deci", false},
    {"deepseek2", false},
    {"deepseek3", false},
    {"dots1", false},
    {"ernie4_5", false},
    {"ernie4_5-moe", false},
    {"exaone", false},
    {"exaone-moe", false},
    {"exaone4", false},
    {"falcon", false},
    {"falcon-h1", true},
    {"gemma", false},
    {"gemma2", false},
    {"gemma3", false},
    {"gemma3n", false},
    {"gemma4", false},
    {"gemma4-moe", false},
    {"glm4", false},
    {"glm4moe", false},
    {"glm4moelite", false},
    {"gpt-oss", false},
    {"gpt2", false},
    {"gptneox", false},
    {"gptneox-serial", false},
    {"granite", false},
    {"granitehybrid", true},
    {"granitemoe", false},
    {"hunyuan-dense", false},
    {"hunyuan-moe", false},
    {"internlm2", false},
    {"jamba", true},
    {"kimi-linear", true},
    {"lfm2", true},
    {"lfm2moe", true},
    {"llama-rope-scaled", false},
    {"llama4", false},
    {"mamba", true},
    {"mamba2", true},
    {"minicpm", false},
    {"minimax-m2", false},
    {"ministral3", false},
    {"mistral", false},
    {"mistral4", false},
    {"mixtral", false},
    {"mpt", false},
    {"nemotron", false},
    {"nemotron-h", true},
    {"nemotron-h-moe", true},
    {"olmo", false},
    {"olmo2", false},
    {"olmo3", false},
    {"olmoe", false},
    {"phi2", false},
    {"phi3", false},
    {"phi3-longrope", false},
    {"phimoe", false},
    {"qwen2moe", false},
    {"qwen2vl", false},
    {"qwen3", false},
    {"qwen35", true},
    {"qwen35moe", true},
    {"qwen3moe", false},
    {"qwen3next", true},
    {"qwen3vl", false},
    {"qwen3vlmoe", false},
    {"rwkv7", true},
    {"seed-oss", false},
    {"smollm3", false},
    {"stablelm", false},
    {"starcoder", false},
    {"starcoder2", false},
};

const MustRun* find_must_run(const std::string& name) {
  const auto* const found =
      std::ranges::find_if(kMustRun, [&](const MustRun& row) { return name == row.name; });
  return found != std::end(kMustRun) ? found : nullptr;
}

// Max mean KL divergence of our logits from those of transformers, with F32 weights and KV. The
// rest comes from the order of sums.
constexpr double kMaxDivergence = 1e-9;

// The same for keys and values in codes. The position with the largest divergence does not count,
// because codes may decide a tie of two experts differently.
constexpr double kMaxDivergenceOfCodes = 1e-5;

// Max mean KL divergence between a model with quantised matrices and the same matrices decoded to
// floats: the error of 8-bit activations. Random weights make many ties of experts. 8-bit
// activations decide some of them differently, and the logits at such a position change completely.
constexpr double kMaxLossOfCodes = 1e-2;
constexpr double kMaxLossOfCodesWithExperts = 1e-1;
// Delta nets subtract the state's prediction from each new value, so random weights amplify noise.
// llama.cpp loses 4e-2 to 1.7e-1 on the same files.
constexpr double kMaxLossOfCodesInDeltaNets = 3e-1;

double max_loss_of_codes(const gguf::File& file) {
  const auto any = [&](auto is_it) { return std::ranges::any_of(file.tensors(), is_it); };
  if (any([](const gguf::TensorInfo& tensor) {
        return tensor.name.ends_with("ssm_beta.weight") || tensor.name.ends_with("ssm_ba.weight");
      }))
    return kMaxLossOfCodesInDeltaNets;
  const bool has_experts = any([](const gguf::TensorInfo& tensor) { return tensor.shape[2] > 1; });
  return has_experts ? kMaxLossOfCodesWithExperts : kMaxLossOfCodes;
}

struct Difference {
  double mean_divergence = 0.0;  // KL(softmax(expected) || softmax(found)), over positions
  double largest = 0.0;          // largest difference of two logits
};

Difference difference(std::span<const float> expected, std::span<const float> found,
                      size_t n_vocab) {
  Difference result;
  const auto n_rows = static_cast<double>(expected.size() / n_vocab);
  for (size_t at = 0; at < expected.size(); at += n_vocab) {
    result.mean_divergence +=
        engine::divergence(expected.subspan(at, n_vocab), found.subspan(at, n_vocab)) / n_rows;
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const double apart = std::abs(static_cast<double>(expected[i]) - static_cast<double>(found[i]));
    result.largest = std::isnan(apart) ? INFINITY : std::max(result.largest, apart);
  }
  return result;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// Compares the scratch memory of passes with the scratch that was granted before the first pass.
void expect_scratch_within_bound(const Engine& engine) {
  const engine::MemoryUse memory = engine.memory();
  EXPECT_GT(memory.scratch, 0u);
  EXPECT_LE(memory.scratch, memory.scratch_granted);
}

class Families : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    family_ = read_family(GetParam(), BILLOW_FLOAT_FAMILIES);
    // Options do not change whether a family is supported.
    std::string refusal;
    try {
      const Engine engine(family_.path, {.n_threads = 1});
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported || find_must_run(family_.name) != nullptr) throw;
      refusal = error.what();
    }
    if (!refusal.empty()) GTEST_SKIP() << "not supported yet: " << refusal;
  }

  size_t max_context() const { return Engine(family_.path, {.n_threads = 1}).max_context(); }

  // Returns n tokens: the family's tokens repeated, each time with other distances between
  // neighbours.
  std::vector<int32_t> longer_tokens(size_t n) const {
    std::vector<int32_t> tokens;
    for (size_t stride = 1; tokens.size() < n; ++stride)
      for (size_t i = 0; i < family_.tokens.size() && tokens.size() < n; ++i)
        tokens.push_back(family_.tokens[i * stride % family_.tokens.size()]);
    return tokens;
  }

  Family family_;
};

TEST_P(Families, LogitsAreThoseOfTransformers) {
  for (const kernels::KernelTable* table : engine::usable_tables()) {
    Engine engine(family_.path,
                  {.n_threads = 2, .kv_type = kernels::KvType::kF32, .kernels = table});
    ASSERT_EQ(engine.model().n_vocab, family_.logits.n_cols);
    const std::vector<float> found = logits_of(engine, family_.tokens);
    expect_scratch_within_bound(engine);
    ASSERT_EQ(found.size(), family_.logits.values.size());
    const Difference apart = difference(family_.logits.values, found, family_.logits.n_cols);
    EXPECT_LE(apart.mean_divergence, kMaxDivergence) << table->name;
    if (table != engine::usable_tables().front()) continue;
    // tests/families/update_models_doc.py reads this line.
    std::printf("figure family=%s architecture=%s kernels=%s mean_kl=%.1e max_difference=%.1e\n",
                family_.name.c_str(), family_.architecture.c_str(),
                std::string(table->name).c_str(), apart.mean_divergence, apart.largest);
    if (family_.kl_llama_cpp) {
      std::printf("figure family=%s llama_cpp_mean_kl=%.1e\n", family_.name.c_str(),
                  *family_.kl_llama_cpp);
    }
  }
}

TEST_P(Families, KeysAndValuesInCodesAreClose) {
  const size_t n_vocab = family_.logits.n_cols;
  Engine engine(family_.path, {.n_threads = 2});
  const std::vector<float> found = logits_of(engine, family_.tokens);
  std::vector<double> apart;
  for (size_t at = 0; at < found.size(); at += n_vocab) {
    apart.push_back(engine::divergence(std::span(family_.logits.values).subspan(at, n_vocab),
                                       std::span(found).subspan(at, n_vocab)));
  }
  std::ranges::sort(apart);
  apart.pop_back();
  const double sum = std::accumulate(apart.begin(), apart.end(), 0.0);
  EXPECT_LE(sum / static_cast<double>(apart.size()), kMaxDivergenceOfCodes);
}

// Compares the logits after each cut, and of all chunk sizes, with those of a single chunk.
void expect_same_cut(const Family& family, const std::vector<int32_t>& tokens, int n_threads,
                     std::span<const size_t> cuts, std::span<const size_t> chunks,
                     std::span<const float> whole) {
  Engine engine(family.path, {.n_threads = n_threads});
  EXPECT_TRUE(same_bits(logits_of(engine, tokens), whole)) << n_threads << " threads";
  for (const size_t cut : cuts) {
    EXPECT_TRUE(
        same_bits(logits_of(engine, tokens, cut), whole.subspan(cut * family.logits.n_cols)))
        << "cut at " << cut << " of " << tokens.size() << ", " << n_threads << " threads";
  }
  for (const size_t n_batch : chunks) {
    Engine small(family.path, {.n_threads = n_threads, .n_batch = n_batch});
    EXPECT_TRUE(same_bits(logits_of(small, tokens), whole))
        << "chunks of " << n_batch << ", " << n_threads << " threads";
  }
}

// Cuts a prompt after 1 token, after 2 tokens, and so on. Uses one thread and two.
TEST_P(Families, PromptChunksAndThreadsChangeNoBit) {
  const std::vector<int32_t>& tokens = family_.tokens;
  std::vector<size_t> cuts(tokens.size() - 1);
  std::iota(cuts.begin(), cuts.end(), size_t{1});
  Engine engine(family_.path, {.n_threads = 1});
  const std::vector<float> whole = logits_of(engine, tokens);
  expect_same_cut(family_, tokens, 1, cuts, std::vector<size_t>{1, 7}, whole);
  expect_same_cut(family_, tokens, 2, std::vector<size_t>{1, 2, 17}, std::vector<size_t>{5}, whole);
}

// Cuts a prompt at the borders of blocks, and beyond the windows.
TEST_P(Families, ChunksOfALongPromptChangeNoBit) {
  constexpr size_t kTokens = 150;
  if (max_context() < kTokens)
    GTEST_SKIP() << "the tiny model has " << max_context() << " positions";
  const std::vector<int32_t> tokens = longer_tokens(kTokens);
  const std::vector<size_t> cuts = {1, 63, 64, 65, 127, 128, 129, 149};
  Engine engine(family_.path, {.n_threads = 1});
  const std::vector<float> whole = logits_of(engine, tokens);
  expect_same_cut(family_, tokens, 1, cuts, std::vector<size_t>{1, 7, 64}, whole);
  expect_same_cut(family_, tokens, 2, std::vector<size_t>{65}, std::vector<size_t>{13}, whole);
}

// Options with log probabilities of the best tokens. These depend on every logit.
engine::SequenceOptions reporting(int64_t n_new) {
  engine::SequenceOptions options = engine::greedy(n_new);
  options.sampling.logprobs = true;
  options.sampling.top_logprobs = 20;
  return options;
}

// Returns the sampler's result for the logits of a prompt that was evaluated alone.
Sampled sampled_alone(const Engine& engine, std::span<const float> logits) {
  const auto n_tokens = static_cast<size_t>(engine.tokenizer().n_tokens());
  engine::Sampler sampler(reporting(1).sampling, engine.tokenizer().n_tokens());
  return sampler.sample(logits.first(n_tokens));
}

bool same_report(const Sampled& a, const Sampled& b) {
  const auto same = [](const engine::TokenLogprob& x, const engine::TokenLogprob& y) {
    return x.token == y.token && std::memcmp(&x.logprob, &y.logprob, sizeof(float)) == 0;
  };
  return a.token == b.token && std::memcmp(&a.logprob, &b.logprob, sizeof(float)) == 0 &&
         !a.top.empty() && std::ranges::equal(a.top, b.top, same);
}

// Runs all sequences to their ends. Compares each sampled token with that of an evaluation alone.
// Returns the number of comparisons.
size_t run_and_compare(Engine& engine, Engine& alone) {
  size_t n_compared = 0;
  std::map<std::shared_ptr<const engine::Sequence>, size_t> n_seen;
  while (!engine.idle()) {
    for (const Engine::Token& token : engine.step()) {
      // The sequence already contains the token, which was sampled after the tokens before it.
      const size_t n_before = token.sequence->n_prompt() + n_seen[token.sequence]++;
      const std::span<const int32_t> before = token.sequence->tokens().first(n_before);
      const std::vector<float> logits = logits_of(alone, before, before.size() - 1);
      EXPECT_TRUE(same_report(token.sampled, sampled_alone(alone, logits)))
          << "after " << before.size() << " tokens, of a prompt of " << token.sequence->n_prompt();
      ++n_compared;
    }
  }
  expect_scratch_within_bound(engine);
  return n_compared;
}

// Runs prompts of many lengths in parallel. Their chunks share passes with each other and with
// sequences that write.
TEST_P(Families, ParallelSequencesChangeNoBit) {
  constexpr int64_t kWritten = 3;
  const size_t n = family_.tokens.size();
  Engine alone(family_.path, {.n_threads = 1});
  Engine crowd(family_.path, {.n_threads = 2, .n_batch = 37, .max_sequences = n});
  size_t n_started = 0;
  for (size_t length = 1; length <= n; length += 3, ++n_started) {
    crowd.start({family_.tokens.begin(), family_.tokens.begin() + static_cast<long>(length)},
                reporting(kWritten));
  }
  EXPECT_EQ(run_and_compare(crowd, alone), n_started * kWritten);
}

TEST_P(Families, PromptsAfterACachedPrefixGiveTheSameBits) {
  constexpr size_t kMaxTokens = 180;
  if (max_context() < kMaxTokens)
    GTEST_SKIP() << "the tiny model has " << max_context() << " positions";
  constexpr uint64_t kPlenty = uint64_t{1} << 30;
  const std::vector<int32_t> first = longer_tokens(150);
  Engine alone(family_.path, {.n_threads = 1});
  Engine sharing(family_.path, {.n_threads = 1, .max_cached = kPlenty});
  sharing.start(first, reporting(2));
  EXPECT_EQ(run_and_compare(sharing, alone), 2u);
  // Not every block has a stored state. The first prompt that continues after a block stores the
  // state, and the second prompt starts there.
  const MustRun* row = find_must_run(family_.name);
  const size_t n_prompts = row != nullptr && row->has_states ? 2 : 1;
  for (const size_t n_common : {150u, 140u, 128u, 100u, 64u, 10u}) {
    size_t n_shared = 0;
    for (size_t prompt = 0; prompt < n_prompts; ++prompt) {
      std::vector<int32_t> next(first.begin(), first.begin() + static_cast<long>(n_common));
      for (size_t i = 0; i < 20; ++i)
        next.push_back(first[(7 * i + n_common + prompt) % first.size()]);
      const auto sequence = sharing.start(next, reporting(3));
      EXPECT_EQ(run_and_compare(sharing, alone), 3u);
      n_shared = sequence->n_shared();
    }
    EXPECT_GE(n_shared, n_common / 64 * 64) << n_common << " tokens in common";
  }
}

class LongRopeFamilies : public Families {};

// LongRoPE rotates short and long texts differently. When a short text grows beyond the limit, its
// next tokens equal those of a prompt that is long from the start.
TEST_P(LongRopeFamilies, TextsThatGrowLongEqualLongPrompts) {
  const size_t limit = Engine(family_.path, {.n_threads = 1}).model().short_text;
  ASSERT_GT(limit, 100u);
  constexpr uint64_t kPlenty = uint64_t{1} << 30;
  Engine alone(family_.path, {.n_threads = 1});
  Engine engine(family_.path, {.n_threads = 2, .n_batch = 100, .max_cached = kPlenty});
  const auto crossing = engine.start(longer_tokens(limit - 3), reporting(8));
  const auto below = engine.start(longer_tokens(limit - 20), reporting(8));
  EXPECT_EQ(run_and_compare(engine, alone), 16u);
  EXPECT_TRUE(below->events().empty());
  size_t n_again = 0;
  for (const engine::SequenceEvent& event : crossing->events())
    n_again += engine::evaluated_again(event);
  EXPECT_EQ(n_again, limit);
  // Cached blocks of long texts are used only for long texts, and those of short ones for short
  // ones.
  const auto longer = engine.start(longer_tokens(limit + 90), reporting(2));
  const auto shorter = engine.start(longer_tokens(limit - 40), reporting(2));
  EXPECT_EQ(run_and_compare(engine, alone), 4u);
  EXPECT_EQ(longer->n_shared(), (limit - 3) / 64 * 64);
  EXPECT_EQ(shorter->n_shared(), (limit - 41) / 64 * 64);
}

// When a text grows long, it is evaluated again from the start. That would read across the gap of a
// shift, so these contexts refill instead of shifting.
TEST_P(LongRopeFamilies, ContextsThatGrowLongRefillInsteadOfShift) {
  const size_t limit = Engine(family_.path, {.n_threads = 1}).model().short_text;
  for (const size_t top : {limit, limit + 64}) {
    Engine engine(family_.path, {.n_threads = 1});
    engine::SequenceOptions options = engine::greedy(static_cast<int64_t>(top));
    options.context = {.max_context = top, .policy = context::OverflowPolicy::kShift};
    const auto sequence = engine.start(longer_tokens(100), options);
    while (!engine.idle()) engine.step();
    EXPECT_EQ(sequence->n_generated(), top);
    const engine::SequenceEvent& last = sequence->events().back();
    EXPECT_EQ(last.event.step, context::Step::kCompact);
    EXPECT_EQ(last.refills, top > limit);
    expect_scratch_within_bound(engine);
  }
}

// Compares quantised weights with the same weights as floats. The gguf package writes both, so the
// comparison excludes the error of quantisation itself. Only Billow's use of the codes counts.
TEST_P(Families, QuantisedWeightsAreCloseToTheSameWeightsAsFloats) {
  std::vector<const kernels::KernelTable*> tables = engine::usable_tables();
  std::erase_if(tables, [](const kernels::KernelTable* table) { return table->is_for_encoders; });
  for (const std::string type : {"Q8_0", "Q4_0"}) {
    const std::string stem = std::string(BILLOW_QUANTISED_FAMILIES "/") + family_.name + "." + type;
    if (!std::filesystem::exists(stem + ".gguf") || !std::filesystem::exists(stem + ".F32.gguf")) {
      GTEST_SKIP() << stem << ".gguf is not there; tests/families/quantise_families.py makes it, "
                   << "as ctest does where the Python package gguf is installed";
    }
    const gguf::File file = gguf::File::open(stem + ".gguf");
    const auto is_of_type = [&](const gguf::TensorInfo& tensor) {
      return gguf::tensor_type_name(tensor.type) == type;
    };
    ASSERT_TRUE(std::ranges::any_of(file.tensors(), is_of_type))
        << stem << ".gguf has no matrix of its type";
    for (const kernels::KernelTable* table : tables) {
      Engine floats(stem + ".F32.gguf", {.n_threads = 2, .kernels = table});
      Engine codes(stem + ".gguf", {.n_threads = 2, .kernels = table});
      const Difference apart = difference(logits_of(floats, family_.tokens),
                                          logits_of(codes, family_.tokens), floats.model().n_vocab);
      EXPECT_LE(apart.mean_divergence, max_loss_of_codes(file)) << type << " " << table->name;
      if (table != tables.front()) continue;
      // `billow logits --exact` does the same: it decodes the codes to floats.
      const std::vector<std::byte> bytes = convert::with_float_weights(file).to_bytes();
      Engine exact(gguf::File::parse(bytes, "exact.gguf"), {.n_threads = 2, .kernels = table});
      EXPECT_EQ(logits_of(exact, family_.tokens), logits_of(floats, family_.tokens)) << type;
      std::printf("figure family=%s %s_mean_kl=%.1e\n", family_.name.c_str(), type.c_str(),
                  apart.mean_divergence);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Families, testing::ValuesIn(family_names()), test_name);

std::vector<std::string> names_with_long_rope() {
  std::vector<std::string> names = family_names();
  std::erase_if(names, [](const std::string& name) { return !name.ends_with("-longrope"); });
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, LongRopeFamilies, testing::ValuesIn(names_with_long_rope()),
                         test_name);
// If the shared folder is missing, there are no such families.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LongRopeFamilies);

TEST(FamilyFiles, EveryRequiredFamilyHasAFile) {
  if (!std::filesystem::is_directory(shared_folder()))
    GTEST_SKIP() << shared_folder() << " is not there";
  const std::vector<std::string> names = family_names();
  for (const MustRun& row : kMustRun)
    EXPECT_TRUE(std::ranges::binary_search(names, std::string(row.name))) << row.name;
}

// Positions grow without limit while a context shifts, but a table of learned positions has a fixed
// size.
TEST(FamilyFiles, LearnedPositionsSurviveContextShifts) {
  constexpr size_t kContext = 96;
  constexpr size_t kWritten = 300;
  const Family family = read_family("gpt2", BILLOW_FLOAT_FAMILIES);
  Engine engine(family.path, {.n_threads = 1});
  ASSERT_LT(engine.max_context(), kWritten);
  engine::SequenceOptions options = engine::greedy(kWritten);
  options.context = {.max_context = kContext, .policy = context::OverflowPolicy::kShift};
  const auto sequence = engine.start({family.tokens.begin(), family.tokens.begin() + 20}, options);
  while (!engine.idle()) engine.step();
  EXPECT_EQ(sequence->tokens().size(), 20 + kWritten);
}

// Queries are scaled up only beyond the original context. A context that shifts never is.
TEST(FamilyFiles, ScalesQueriesByTheirPlacesInTheContext) {
  if (!std::filesystem::is_directory(shared_folder()))
    GTEST_SKIP() << shared_folder() << " is not there";
  const Family family = read_family("ministral3", BILLOW_FLOAT_FAMILIES);
  const gguf::File file = gguf::File::open(family.path);
  std::vector<int32_t> written[2];
  for (const bool scales : {false, true}) {
    const auto set = [scales](gguf::Writer& writer) {
      writer.set_float("mistral3.attention.temperature_scale", scales ? 5.0f : 0.0f);
    };
    const std::vector<std::byte> bytes = engine::changed(file, {.set = set});
    Engine engine(gguf::File::parse(bytes, "changed.gguf"), {.n_threads = 1});
    engine::SequenceOptions options = engine::greedy(400);
    options.context = {.max_context = 64, .policy = context::OverflowPolicy::kShift};
    options.context.compaction = {.reserve_batches = 2, .batch = 8};
    const auto sequence =
        engine.start({family.tokens.begin(), family.tokens.begin() + 20}, options);
    while (!engine.idle()) engine.step();
    ASSERT_FALSE(sequence->events().back().refills);
    written[scales ? 1 : 0].assign(sequence->tokens().begin(), sequence->tokens().end());
  }
  EXPECT_EQ(written[0], written[1]);
}

// Layers with a window lose the anchor when a context shifts. A window that sees the whole context
// must see it afterwards, too.
TEST(FamilyFiles, ContextsWithinAWindowRefillInsteadOfShift) {
  if (!std::filesystem::is_directory(shared_folder()))
    GTEST_SKIP() << shared_folder() << " is not there";
  const Family family = read_family("gemma2", BILLOW_FLOAT_FAMILIES);
  const gguf::File file = gguf::File::open(family.path);
  for (const uint32_t window : {32u, 64u}) {
    const auto set = [window](gguf::Writer& writer) {
      writer.set_uint("gemma2.attention.sliding_window", window);
    };
    const std::vector<std::byte> bytes = engine::changed(file, {.set = set});
    Engine engine(gguf::File::parse(bytes, "changed.gguf"), {.n_threads = 1});
    engine::SequenceOptions options = engine::greedy(100);
    options.context = {.max_context = 64, .policy = context::OverflowPolicy::kShift};
    options.context.compaction = {.reserve_batches = 2, .batch = 8};
    const auto sequence =
        engine.start({family.tokens.begin(), family.tokens.begin() + 20}, options);
    while (!engine.idle()) engine.step();
    EXPECT_EQ(sequence->events().back().refills, window == 64u);
  }
}

// Tests difference() on two rows whose divergence is known.
TEST(FamilyFiles, DifferenceFollowsTheFormula) {
  const std::vector<float> a = {0.0f, 0.0f, 1.0f, 1.0f};
  const std::vector<float> b = {0.0f, std::log(3.0f), 1.0f, 1.0f};
  const Difference apart = difference(a, b, 2);
  const double expected = (0.5 * std::log(0.5 / 0.25) + 0.5 * std::log(0.5 / 0.75)) / 2;
  EXPECT_NEAR(apart.mean_divergence, expected, 1e-7);
  EXPECT_NEAR(apart.largest, std::log(3.0), 1e-6);
  const std::vector<float> broken = {0.0f, NAN, 1.0f, 1.0f};
  EXPECT_EQ(difference(a, broken, 2).largest, INFINITY);
  EXPECT_FALSE(difference(a, broken, 2).mean_divergence <= 1.0);
}

}  // namespace
}  // namespace billow::families
