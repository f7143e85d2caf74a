#include "api/choices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>

namespace billow::api {
namespace {

// Generates three texts for each answer and counts how many answers run in parallel.
class Writers : public Generator {
 public:
  void run(const GenerationRequest& request, Sink& sink, std::stop_token stop,
           metrics::Trace&) override {
    const size_t n = ++n_running;
    size_t max = max_running;
    while (n > max && !max_running.compare_exchange_weak(max, n)) {
    }
    const int64_t seed = request.options.sampling.seed.value_or(0) + request.seed_shift;
    const bool fails = seed == failing_seed;
    sink.found("m");
    sink.sized({.n_prompt = 4});
    bool wanted = true;
    for (int i = 0; i < 3 && wanted && !stop.stop_requested(); ++i) {
      wanted =
          sink.delta({.events = {{EventKind::kText, 0, request.prompt + std::to_string(seed)}}});
      if (fails && i == 1) {
        --n_running;
        throw std::runtime_error("broken");
      }
      std::this_thread::yield();
    }
    if (wanted && !stop.stop_requested()) sink.end({.done_reason = "stop"});
    --n_running;
  }
  std::atomic<size_t> n_running = 0;
  std::atomic<size_t> max_running = 0;
  int64_t failing_seed = -1;
};

class Gathered : public Sink {
 public:
  void found(const std::string&) override {
    ++n_found;
    check_thread();
  }
  void sized(const Sizing&) override { ++n_sized; }
  bool delta(const Delta& delta) override {
    check_thread();
    first.try_emplace(delta.choice, n_deltas);
    for (const Event& event : delta.events) texts[delta.choice] += event.text;
    return ++n_deltas < max_deltas;
  }
  bool end(const Ending& ending) override {
    check_thread();
    ended.insert(ending.choice);
    return true;
  }
  bool rendered(const std::string&, size_t) override { return true; }

  void check_thread() const { EXPECT_EQ(std::this_thread::get_id(), thread); }

  const std::thread::id thread = std::this_thread::get_id();
  std::map<size_t, std::string> texts;
  std::map<size_t, size_t> first;  // deltas before its first one
  std::set<size_t> ended;
  int n_found = 0;
  int n_sized = 0;
  size_t n_deltas = 0;
  size_t max_deltas = SIZE_MAX;
};

GenerationRequest prompt_of(const std::string& text) {
  GenerationRequest request{.kind = GenerationKind::kPrompt, .model = "m"};
  request.prompt = text;
  request.options.sampling.seed = 10;
  return request;
}

class Choices : public testing::Test {
 protected:
  void run(const std::vector<GenerationRequest>& prompts, size_t n_each) {
    run_choices(writers, prompts, n_each, sink, stop.get_token(), trace);
  }
  Writers writers;
  Gathered sink;
  std::stop_source stop;
  metrics::Trace trace{"id", "/v1", ""};
};

TEST_F(Choices, EachPromptGetsAnswersWithConsecutiveSeeds) {
  run({prompt_of("a"), prompt_of("b")}, 3);
  const std::map<size_t, std::string> expected = {{0, "a10a10a10"}, {1, "a11a11a11"},
                                                  {2, "a12a12a12"}, {3, "b10b10b10"},
                                                  {4, "b11b11b11"}, {5, "b12b12b12"}};
  EXPECT_EQ(sink.texts, expected);
  EXPECT_EQ(sink.ended.size(), 6u);
  EXPECT_EQ(sink.n_found, 1);
  EXPECT_EQ(sink.n_sized, 1);
}

TEST_F(Choices, FirstAnswerToAPromptStartsAlone) {
  for (int i = 0; i < 20; ++i) {
    Gathered own;
    run_choices(writers, std::vector{prompt_of("a"), prompt_of("b")}, 4, own, {}, trace);
    for (const size_t choice : {1u, 2u, 3u}) EXPECT_LT(own.first[0], own.first[choice]);
    for (const size_t choice : {5u, 6u, 7u}) EXPECT_LT(own.first[4], own.first[choice]);
  }
}

TEST_F(Choices, LimitsParallelAnswers) {
  run({prompt_of("a")}, kMaxChoices);
  EXPECT_EQ(sink.ended.size(), kMaxChoices);
  EXPECT_LE(writers.max_running, kChoicesAtOnce);
}

TEST_F(Choices, FailureEndsAllChoices) {
  writers.failing_seed = 12;
  EXPECT_THROW(run({prompt_of("a")}, 64), std::runtime_error);
  EXPECT_EQ(writers.n_running, 0u);
  EXPECT_LT(sink.ended.size(), 64u);
}

TEST_F(Choices, RethrowsErrorsOfTheSink) {
  class Throwing : public Gathered {
   public:
    bool delta(const Delta& delta) override {
      if (delta.choice == 2) throw std::logic_error("sink");
      return Gathered::delta(delta);
    }
  } own;
  const std::vector prompts{prompt_of("a")};
  EXPECT_THROW(run_choices(writers, prompts, 16, own, {}, trace), std::logic_error);
  EXPECT_EQ(writers.n_running, 0u);
}

TEST_F(Choices, EndWithTheRequest) {
  stop.request_stop();
  run({prompt_of("a")}, 8);
  EXPECT_TRUE(sink.ended.empty());
}

}  // namespace
}  // namespace billow::api
