// Runs random requests on the tiny models of all families. Each request writes the same tokens as
// alone and without drafts, although other requests run, are cancelled, grow, overflow, share
// prefixes and use drafts. Memory stays within the grants.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <random>

#include "base/error.h"
#include "base/test_folder.h"
#include "engine/tiny_engine.h"
#include "families/family_files.h"

namespace billow::families {
namespace {

using engine::Engine;
using engine::EngineOptions;
using engine::Sequence;
using engine::SequenceOptions;

constexpr size_t kMaxContext = 256;

struct Request {
  std::vector<int32_t> prompt;
  SequenceOptions options;
  std::vector<int32_t> expected = {};  // prompt and answer
};

class Script {
 public:
  Script(const Family& family, size_t max_context, unsigned seed)
      : family_(family), top_(std::min(max_context, kMaxContext)), random_(seed) {}

  size_t below(size_t n) { return random_() % n; }

  // Returns a random request. Most requests share a prefix with others.
  Request request() {
    Request made;
    const bool is_long = below(3) != 0;
    const size_t n_prompt = 1 + (is_long ? top_ / 4 + below(top_ / 4) : below(top_ / 4));
    const size_t stride = 1 + below(3);
    const size_t n_common = below(4) == 0 ? 0 : n_prompt - below(n_prompt / 4 + 1);
    const std::vector<int32_t>& known = family_.tokens;
    for (size_t i = 0; i < n_prompt; ++i) {
      const size_t at = i < n_common ? i : i * stride + below(known.size());
      made.prompt.push_back(known[at % known.size()]);
    }
    SequenceOptions& options = made.options;
    options = engine::greedy(static_cast<int64_t>(1 + below(below(3) == 0 ? 2 * top_ : 20)));
    if (below(2) == 0) {
      options.sampling.temperature = 0.8f;
      options.sampling.seed = static_cast<int64_t>(below(1000));
    }
    using context::OverflowPolicy;
    constexpr OverflowPolicy kPolicies[] = {OverflowPolicy::kStop, OverflowPolicy::kRefill,
                                            OverflowPolicy::kShift};
    options.context = {.max_context = top_,
                       .sizes = {top_ / 4 + 1, top_ / 2, top_},
                       .policy = kPolicies[below(3)],
                       .compaction = {.reserve_batches = 1, .batch = 8}};
    return made;
  }

 private:
  const Family& family_;
  size_t top_;
  std::mt19937 random_;
};

// Returns parts of an answer with wrong tokens between them. Some drafts from it are right, others
// are partly right.
std::vector<int32_t> prediction_of(std::span<const int32_t> answer, Script& script) {
  std::vector<int32_t> out;
  for (const int32_t token : answer) {
    const size_t edit = script.below(24);
    if (edit == 0) continue;
    out.push_back(edit == 1 ? answer[script.below(answer.size())] : token);
  }
  return out;
}

// Returns the answer of a request that runs alone.
std::vector<int32_t> answer_alone(Engine& alone, const Request& request) {
  const auto sequence = alone.start(request.prompt, request.options);
  while (!alone.idle()) alone.step();
  return {sequence->tokens().begin(), sequence->tokens().end()};
}

void expect_within_grants(const Engine& engine) {
  const engine::MemoryUse use = engine.memory();
  EXPECT_LE(use.kv_in_use, use.kv_granted + use.kv_cached);
  EXPECT_LE(use.scratch, use.scratch_granted);
}

class FamilySequences : public testing::TestWithParam<std::string> {};

TEST_P(FamilySequences, RandomRequestsEqualSingleOnes) {
  const Family family = read_family(GetParam(), BILLOW_FLOAT_FAMILIES);
#ifdef NDEBUG
  constexpr unsigned kRounds = 2;
  constexpr size_t kRequests = 7;
#else  // with sanitizers each step takes ten times as long
  constexpr unsigned kRounds = 1;
  constexpr size_t kRequests = 3;
#endif
  size_t n_accepted = 0;
  for (unsigned round = 0; round < kRounds; ++round) {
    const auto seed = static_cast<unsigned>(std::hash<std::string>{}(family.name) + round);
    std::mt19937 random(seed);
    constexpr size_t kBatches[] = {512, 13, 70};
    EngineOptions options = {.n_threads = 1 + static_cast<int>(round % 2),
                             .n_batch = kBatches[random() % 3],
                             .max_sequences = 3,
                             .drafts_eagerly = true};
    constexpr kernels::KvType kTypes[] = {kernels::KvType::kInt16, kernels::KvType::kQ8_0,
                                          kernels::KvType::kQ4_0};
    options.kv_type = kTypes[seed % 3];
    options.max_cached = round % 2 == 0 ? uint64_t{1} << 30 : uint64_t{1} << 18;
    Engine engine(family.path, options);
    Engine alone(family.path, {.n_threads = 1, .kv_type = options.kv_type, .max_draft = 0});
    Script script(family, engine.max_context(), seed);
    std::map<std::shared_ptr<const Sequence>, Request> running;
    size_t n_left = kRequests;
    while (n_left > 0 || !engine.idle()) {
      if (n_left > 0 && running.size() < options.max_sequences && script.below(3) == 0) {
        Request request = script.request();
        --n_left;
        try {
          request.expected = answer_alone(alone, request);
          const auto answer = std::span(request.expected).subspan(request.prompt.size());
          if (script.below(4) != 0) request.options.prediction = prediction_of(answer, script);
          running[engine.start(request.prompt, request.options)] = request;
        } catch (const Error& error) {  // the prompt is longer than a compaction can keep
          EXPECT_EQ(error.code(), ErrorCode::kTooLarge) << error.what();
        }
      }
      (void)engine.step(script.below(4) == 0 ? 1 + script.below(20) : SIZE_MAX);
      expect_within_grants(engine);
      if (!running.empty() && script.below(400) == 0) {  // a client disconnects
        const auto cancelled = running.begin();
        engine.finish(*cancelled->first, engine::FinishReason::kStop);
        running.erase(cancelled);
      }
      std::erase_if(running, [&](const auto& one) {
        const auto& [sequence, request] = one;
        if (!sequence->finished()) return false;
        n_accepted += sequence->n_draft_accepted();
        EXPECT_TRUE(std::ranges::equal(sequence->tokens(), request.expected))
            << "a prompt of " << request.prompt.size() << " tokens, " << sequence->n_shared()
            << " shared, answer of " << sequence->n_generated() << ", " << sequence->events().size()
            << " events, seed " << seed;
        return true;
      });
    }
    const engine::MemoryUse use = engine.memory();
    EXPECT_EQ(use.kv_granted, 0u);
    EXPECT_EQ(use.kv_in_use, use.kv_cached);
  }
  if (kRounds > 1) {  // with few requests, possibly no draft is right
    EXPECT_GT(n_accepted, 0u);
  }
}

// Runs engines one after another with the same session files. Each engine writes the same tokens as
// without these files, and uses the KV and states that earlier engines saved.
TEST_P(FamilySequences, SavedSessionsGiveTheSameTokens) {
  const TestFolder temporary;
  // Sessions are valid for one file only, and other tests write the shared copies again.
  const Family family = read_family(GetParam(), temporary.file("floats"));
  const std::string folder = temporary.file("sessions");
  const auto seed = static_cast<unsigned>(std::hash<std::string>{}(family.name));
  EngineOptions options = {.n_threads = 1, .max_sequences = 3, .max_cached = uint64_t{1} << 30};
  options.n_batch = seed % 2 == 0 ? 512 : 50;
  options.sessions = {.path = folder, .max_bytes = uint64_t{1} << 30};
  Engine alone(family.path, {.n_threads = 1, .max_draft = 0});
  Script script(family, alone.max_context(), seed);
  size_t n_from_disk = 0;
  std::vector<Request> requests;
  for (int restart = 0; restart < 3; ++restart) {
    Engine engine(family.path, options);
    for (int i = 0; i < 3; ++i) {
      Request request = script.request();
      if (!requests.empty() && script.below(2) == 0) {  // continues an earlier text
        request.prompt = requests[script.below(requests.size())].expected;
        request.prompt.resize(std::min(request.prompt.size(), kMaxContext / 2));
      }
      try {
        request.expected = answer_alone(alone, request);
        const auto sequence = engine.start(request.prompt, request.options);
        while (!engine.idle()) engine.step();
        EXPECT_TRUE(std::ranges::equal(sequence->tokens(), request.expected))
            << "a prompt of " << request.prompt.size() << " tokens, " << sequence->n_shared()
            << " shared, restart " << restart;
        if (i == 0) n_from_disk += sequence->n_shared();
        requests.push_back(std::move(request));
      } catch (const Error& error) {  // the prompt is longer than a compaction can keep
        EXPECT_EQ(error.code(), ErrorCode::kTooLarge) << error.what();
      }
    }
    while (engine.has_to_save()) engine.save_one();
    expect_within_grants(engine);
  }
  RecordProperty("tokens_from_disk", static_cast<int>(n_from_disk));
  // Three texts share a prefix. The last one uses the KV that an earlier engine saved.
  Request whole = script.request();
  whole.prompt.assign(family.tokens.begin(), family.tokens.end());
  while (whole.prompt.size() < 100)
    whole.prompt.insert(whole.prompt.end(), family.tokens.begin(), family.tokens.end());
  whole.prompt.resize(100);
  whole.options = engine::greedy(3);
  if (alone.max_context() > 104) {
    const std::vector<int32_t> expected = answer_alone(alone, whole);
    for (int restart = 0; restart < 2; ++restart) {
      Engine engine(family.path, options);
      const auto sequence = engine.start(whole.prompt, whole.options);
      while (!engine.idle()) engine.step();
      EXPECT_TRUE(std::ranges::equal(sequence->tokens(), expected)) << family.name;
      while (engine.has_to_save()) engine.save_one();
      if (restart == 1) n_from_disk += sequence->n_shared();
    }
    EXPECT_GT(n_from_disk, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(All, FamilySequences, testing::ValuesIn(family_names()),
                         [](const auto& test) {
                           std::string name = test.param;
                           for (char& c : name)
                             if (c == '-' || c == '.') c = '_';
                           return name;
                         });

}  // namespace
}  // namespace billow::families
