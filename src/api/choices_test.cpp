#include "api/choices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace billow::api {
namespace {

// Sends the prompt and three texts for each answer. Counts how many answers run in parallel.
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
    if (request.seed_shift > 0 && !has_begun(request.prompt)) ++n_early;
    sink.found("m");
    sink.sized({.n_prompt = 4});
    bool wanted = sink.delta({.is_prompt = true, .events = {{EventKind::kText, 0, ""}}});
    std::this_thread::yield();
    begin(request.prompt);
    sink.begun();
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (awaits_others && max_running == 1 && std::chrono::steady_clock::now() < patience)
      std::this_thread::yield();
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
  std::atomic<size_t> n_early = 0;  // answers that started before their prompt was evaluated
  int64_t failing_seed = -1;
  bool awaits_others = false;  // an answer has no text before another one runs

 private:
  bool has_begun(const std::string& prompt) {
    const std::scoped_lock lock(mutex_);
    return begun_.contains(prompt);
  }
  void begin(const std::string& prompt) {
    const std::scoped_lock lock(mutex_);
    begun_.insert(prompt);
  }
  std::mutex mutex_;
  std::set<std::string> begun_;  // evaluated prompts
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
    const std::string prompt = std::to_string(i);
    Gathered own;
    run_choices(writers, std::vector{prompt_of("a" + prompt), prompt_of("b" + prompt)}, 4, own, {},
                trace);
  }
  EXPECT_EQ(writers.n_early, 0u);
}

// The text of an answer may come as a whole, or after a long thought.
TEST_F(Choices, FurtherAnswersDoNotAwaitTheTextOfTheFirst) {
  writers.awaits_others = true;
  run({prompt_of("a")}, 3);
  EXPECT_GT(writers.max_running, 1u);
  EXPECT_EQ(sink.ended.size(), 3u);
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
