#include "runner/engine_loop.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <memory>
#include <random>
#include <span>
#include <thread>

#include "base/error.h"
#include "base/test_folder.h"
#include "base/utf8.h"
#include "tiny_loop.h"

namespace billow::runner {
namespace {

using engine::greedy;
using engine::random_tokens;

// Waits up to 60 seconds for the condition. Returns whether it became true.
template <class Condition>
bool comes_true(const Condition& condition) {
  for (int i = 0; i < 60'000 && !condition(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return condition();
}

TEST(EngineLoop, ReportsActiveBudgetAndWantedMemory) {
  TinyLoop tiny({.max_unread = 1000}, {.max_sequences = 2});
  EXPECT_EQ(tiny.loop.state().budget_version, 0u);
  const uint64_t start = tiny.loop.state().memory.held();
  AnswerRequest growing = request(1, 900);
  growing.options.context.sizes = {64, 1024};
  growing.options.context.policy = context::OverflowPolicy::kRefill;
  growing.options.context.compaction = {2, 8};
  // The budget has room for the first rung only.
  const auto sized = tiny.loop.submit(request(1, 900));
  ASSERT_TRUE(sized->next().has_value());
  ASSERT_TRUE(comes_true([&] { return tiny.loop.state().memory.kv_granted > 0; }));
  sized->cancel();
  read(*sized);
  const uint64_t scratch = tiny.loop.state().memory.scratch_granted;
  tiny.loop.set_memory_budget({start + scratch + (uint64_t{1} << 18), 7});
  ASSERT_TRUE(comes_true([&] { return tiny.loop.state().budget_version == 7; }));
  const auto answer = tiny.loop.submit(growing);
  ASSERT_TRUE(comes_true([&] { return tiny.loop.state().memory.wanted > 0; }));
  const LoopState refused = tiny.loop.state();
  EXPECT_LE(refused.memory.held(), refused.memory.budget);
  tiny.loop.set_memory_budget({refused.memory.budget + refused.memory.wanted, 8});
  ASSERT_TRUE(comes_true([&] { return tiny.loop.state().budget_version == 8; }));
  bool grown = false;
  while (const std::optional<Chunk> piece = answer->next()) {
    for (const engine::SequenceEvent& event : piece->events)
      grown = grown || event.event.step == context::Step::kGrow;
  }
  EXPECT_TRUE(grown);
  EXPECT_EQ(answer->end().tokens.size(), 900u);
  EXPECT_EQ(tiny.loop.state().memory.wanted, 0u);
}

// An answer that waits for memory gets that of an answer that ends, although nobody reads the other
// answer and the server sends no budget.
TEST(EngineLoop, AnswerGetsTheMemoryOfAnotherOne) {
  TinyLoop tiny({}, {.max_sequences = 2, .asks_for_memory = true});
  const context::MemoryNeed need = tiny.loop.need();
  tiny.loop.set_memory_budget(
      {need.weight_bytes + need.scratch_bytes(1024) + need.kv_bytes(1024), 1});
  AnswerRequest one = request(1, 900);
  one.options.context.sizes = {1024};
  AnswerRequest other = one;
  other.options.max_new_tokens = 5;
  const auto first = tiny.loop.submit(std::move(one));
  const auto second = tiny.loop.submit(std::move(other));
  ASSERT_TRUE(comes_true([&] {
    const LoopState state = tiny.loop.state();
    return state.n_running + state.n_waiting == 0;
  }));
  EXPECT_EQ(second->end().tokens.size(), 5u);
  EXPECT_EQ(first->end().tokens.size(), 900u);
}

// The server may raise the loop's budget. An answer that lacks memory waits until the server has
// decided.
TEST(EngineLoop, AsksForMemoryBeforeItCompacts) {
  const auto growing = [] {
    AnswerRequest one = request(1, 900);
    one.options.context.sizes = {64, 1024};
    one.options.context.policy = context::OverflowPolicy::kRefill;
    one.options.context.compaction = {2, 8};
    return one;
  };
  const auto reads_until_it_asks = [](RequestStream& answer) {
    for (std::optional<Chunk> piece = answer.next(); piece; piece = answer.next())
      if (piece->asking) return true;
    return false;
  };
  const auto count = [](RequestStream& answer, context::Step step) {
    size_t n = 0;
    while (const std::optional<Chunk> piece = answer.next())
      for (const engine::SequenceEvent& event : piece->events) n += event.event.step == step;
    return n;
  };
  TinyLoop tiny({}, {.max_sequences = 2, .asks_for_memory = true});
  const context::MemoryNeed need = tiny.loop.need();
  const uint64_t small = need.weight_bytes + need.scratch_bytes(64) + need.kv_bytes(64);
  const uint64_t large = need.weight_bytes + need.scratch_bytes(1024) + need.kv_bytes(1024);
  tiny.loop.set_memory_budget({need.weight_bytes, 1});

  // The answer gets its first rung, and later the next one, after the budget grows by what it
  // wants.
  const auto granted = tiny.loop.submit(growing());
  for (const uint64_t budget : {small, large}) {
    ASSERT_TRUE(reads_until_it_asks(*granted));
    ASSERT_TRUE(comes_true([&] { return tiny.loop.state().memory.asking; }));
    const engine::MemoryUse use = tiny.loop.state().memory;
    EXPECT_EQ(use.budget + use.wanted, budget);
    // If a new budget neither grants nor denies the memory, the answer still waits.
    tiny.loop.set_memory_budget({use.budget, 2});
    ASSERT_TRUE(comes_true([&] { return tiny.loop.state().budget_version == 2; }));
    EXPECT_TRUE(tiny.loop.state().memory.asking);
    tiny.loop.set_memory_budget({budget, 3});
    ASSERT_TRUE(comes_true([&] { return tiny.loop.state().budget_version == 3; }));
  }
  EXPECT_EQ(count(*granted, context::Step::kCompact), 0u);
  EXPECT_EQ(granted->end().tokens.size(), 900u);

  // If the server denies more memory, the context is compacted repeatedly.
  tiny.loop.set_memory_budget({small, 4});
  const auto denied = tiny.loop.submit(growing());
  std::atomic<bool> done{false};
  std::thread server([&] {
    while (!done.load()) {
      if (tiny.loop.state().memory.asking) tiny.loop.set_memory_budget({small, 5, small});
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  EXPECT_GT(count(*denied, context::Step::kCompact), 1u);
  EXPECT_EQ(denied->end().tokens.size(), 900u);

  // An answer without memory for its first rung ends with an error that names the context.
  AnswerRequest long_one = request(1, 5, 600);
  const auto refused = tiny.loop.submit(std::move(long_one));
  while (refused->next()) {
  }
  EXPECT_NE(refused->end().error.find("no memory for a context"), std::string::npos)
      << refused->end().error;
  done = true;
  server.join();
}

TEST(EngineLoop, ReportsLoadAndSpeed) {
  TinyLoop tiny;
  // On a busy machine, a prompt can be older than the last seconds when its answer ends.
  EXPECT_TRUE(comes_true([&] {
    read(*tiny.loop.submit(request(1, 10, 100)));
    const LoopRates rates = tiny.loop.state().rates;
    EXPECT_LE(rates.busy, 1.0);
    return rates.busy > 0.0 && rates.prompt_tokens > 0.0 && rates.decoded_tokens > 0.0;
  }));
}

TEST(EngineLoop, FailedPassFailsAllAnswersWithTheReason) {
  std::atomic<bool> fails{false};
  std::atomic<int> n_broken{0};
  TinyLoop tiny({.on_broken = [&] { n_broken.fetch_add(1); },
                 .before_pass =
                     [&] {
                       if (fails.load()) throw Error(ErrorCode::kIo, "the disk is gone");
                     }},
                {.max_sequences = 1});
  const auto running = tiny.loop.submit(endless_request(1));
  const auto waiting = tiny.loop.submit(request(2, 5));
  ASSERT_TRUE(running->next().has_value());
  EXPECT_FALSE(tiny.loop.broken());
  fails.store(true);
  EXPECT_THROW(read(*running), Error);
  EXPECT_THROW(read(*waiting), Error);
  EXPECT_THROW(tiny.loop.submit(request(3, 5)), Error);
  EXPECT_THROW(tiny.loop.embed({{1, 2}}), Error);
  EXPECT_TRUE(tiny.loop.broken());
  EXPECT_EQ(tiny.loop.state().failure, "the disk is gone");
  EXPECT_TRUE(comes_true([&] { return n_broken.load() == 1; }));
}

TEST(EngineLoop, ReportsCachedPrefixes) {
  TinyLoop tiny({}, {.max_cached = size_t{1} << 30});
  EXPECT_TRUE(tiny.loop.latest_prefixes(5).empty());
  AnswerRequest asked = request(5, 200);
  asked.prompt = random_tokens(150, 300, 1);
  const std::vector<int32_t> prompt = asked.prompt;
  read(*tiny.loop.submit(std::move(asked)));
  const std::vector<kv::KnownText> known = tiny.loop.latest_prefixes(5);
  ASSERT_EQ(known.size(), 1u);
  EXPECT_GE(known[0].tokens.size(), 128u);
  EXPECT_TRUE(std::equal(known[0].tokens.begin(), known[0].tokens.begin() + 128, prompt.begin()));
  EXPECT_TRUE(tiny.loop.latest_prefixes(0).empty());
}

TEST(EngineLoop, SavesAndForgetsATextWhileAnotherRequestRuns) {
  const TestFolder temporary;
  const std::string& folder = temporary.path();
  reference::write_tiny_model({.architecture = "llama", .n_context = 1024}, folder + "/m.gguf");
  {
    EngineLoop loop(std::make_unique<engine::Engine>(
        folder + "/m.gguf",
        engine::EngineOptions{.max_cached = uint64_t{1} << 30,
                              .sessions = {folder + "/sessions", uint64_t{1} << 30}}));
    const auto running = loop.submit(endless_request(1));
    ASSERT_TRUE(running->next().has_value());
    AnswerRequest asked = request(5, 10);
    asked.prompt = random_tokens(200, 300, 1);
    const std::vector<int32_t> prompt = asked.prompt;
    read(*loop.submit(std::move(asked)));
    EXPECT_EQ(loop.do_with_text(TextAction::kSave, prompt).n_tokens, 192u);
    EXPECT_FALSE(running->is_over());
    EXPECT_EQ(loop.do_with_text(TextAction::kForget, prompt).n_tokens, 192u);
    EXPECT_EQ(loop.do_with_text(TextAction::kForget, prompt).n_tokens, 0u);
    EXPECT_EQ(loop.do_with_text(TextAction::kSave, prompt).n_tokens, 0u);
    running->cancel();
    read(*running);
    EXPECT_EQ(loop.do_with_text(TextAction::kSave, random_tokens(200, 300, 9)).n_tokens, 0u);
  }
}

TEST(EngineLoop, VectorsAreEqualAloneAndWithAnswers) {
  TinyLoop tiny({}, {.n_batch = 64});
  std::vector<std::vector<int32_t>> texts;
  for (unsigned i = 0; i < 20; ++i) texts.push_back(random_tokens(1 + i * 7, 300, i));
  Vectors alone;
  for (const std::vector<int32_t>& text : texts) {
    const std::optional<Vectors> one = tiny.loop.embed({text});
    ASSERT_TRUE(one && one->n == 1);
    alone.values.insert(alone.values.end(), one->values.begin(), one->values.end());
  }
  const Whole before = read(*tiny.loop.submit(request(5, 200)));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const std::optional<Vectors> all = tiny.loop.embed(texts);
      ASSERT_TRUE(all.has_value());
      EXPECT_EQ(all->n, texts.size());
      EXPECT_EQ(all->values, alone.values);
    });
  }
  EXPECT_EQ(read(*tiny.loop.submit(request(5, 200))).tokens, before.tokens);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(tiny.loop.embed({})->n, 0u);
  EXPECT_THROW(tiny.loop.embed({{1, 2}, {}}), Error);
  EXPECT_THROW(tiny.loop.embed({{1, 2}, random_tokens(1025, 300, 1)}), Error);
  EXPECT_THROW(tiny.loop.embed({{1, 99999}}), Error);
  EXPECT_TRUE(comes_true([&] { return tiny.loop.state().memory.kv_in_use == 0; }));
  EXPECT_EQ(tiny.loop.state().n_running, 0u);
}

TEST(EngineLoop, SendersOfTextsTakeTurns) {
  TinyLoop tiny({}, {.n_batch = 64});
  std::atomic<bool> many_ended{false};
  std::stop_source stop;
  std::thread caller([&] {
    const std::vector<std::vector<int32_t>> many(3000, random_tokens(60, 300, 1));
    tiny.loop.embed(many, stop.get_token(), {}, {.client = "many"});
    many_ended.store(true);
  });
  EXPECT_TRUE(comes_true([&] { return tiny.loop.state().n_running == 1; }));
  EXPECT_EQ(tiny.loop.embed({{1, 2, 3}}, {}, {}, {.client = "one"})->n, 1u);
  EXPECT_FALSE(many_ended.load());
  stop.request_stop();
  caller.join();
}

TEST(EngineLoop, EmbeddingCanBeCancelled) {
  std::atomic<bool> waits{true};
  std::atomic<int> n_passes{0};
  TinyLoop tiny({.before_pass =
                     [&] {
                       n_passes.fetch_add(1);
                       n_passes.notify_all();
                       waits.wait(true);
                     }},
                {});
  std::stop_source stop;
  std::thread caller([&] {
    const std::vector<std::vector<int32_t>> many(500, random_tokens(500, 300, 1));
    EXPECT_FALSE(tiny.loop.embed(many, stop.get_token()).has_value());
  });
  n_passes.wait(0);  // the loop has the texts, and the pass waits
  EXPECT_EQ(tiny.loop.state().n_running, 1u);
  stop.request_stop();
  waits.store(false);
  waits.notify_all();
  caller.join();
  EXPECT_TRUE(comes_true([&] { return tiny.loop.state().memory.kv_in_use == 0; }));
  EXPECT_EQ(tiny.loop.embed({{1, 2, 3}})->n, 1u);
}

TEST(EngineLoop, AnswersAreEqualForManyThreads) {
  TinyLoop tiny;
  std::vector<Whole> alone;
  for (unsigned i = 0; i < 12; ++i)
    alone.push_back(read(*tiny.loop.submit(request(i, 10 + 3 * i, 5 + 7 * i))));
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 12; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 3; ++round) {
        const Whole whole = read(*tiny.loop.submit(request(i, 10 + 3 * i, 5 + 7 * i)));
        EXPECT_EQ(whole.text, alone[i].text);
        EXPECT_EQ(whole.tokens, alone[i].tokens);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(alone[5].tokens.size(), 25u);
  EXPECT_EQ(tiny.loop.state().n_running, 0u);
  EXPECT_EQ(tiny.loop.state().memory.kv_in_use, 0u);
}

TEST(EngineLoop, CountsAnswersFromStartToEnd) {
  std::atomic<bool> holds{true};
  std::atomic<int> n_passes{0};
  TinyLoop tiny({.before_pass =
                     [&] {
                       n_passes.fetch_add(1);
                       n_passes.notify_all();
                       holds.wait(true);
                     }},
                {.max_sequences = 2});
  std::vector<std::shared_ptr<RequestStream>> answers;
  for (unsigned i = 0; i < 5; ++i) answers.push_back(tiny.loop.submit(request(i, 10, 30)));
  n_passes.wait(0);  // the first pass has begun and waits
  LoopState state = tiny.loop.state();
  EXPECT_EQ(state.n_running + state.n_waiting, 5u);
  EXPECT_GE(state.n_running, 1u);
  EXPECT_EQ(state.backlog.n_prompt, 150u);
  EXPECT_EQ(state.backlog.n_decode, 50u);
  holds = false;
  holds.notify_all();
  for (size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(read(*answers[i]).tokens.size(), 10u);
    state = tiny.loop.state();
    EXPECT_LE(state.n_running, 2u);
    EXPECT_LT(state.n_running + state.n_waiting, answers.size() - i);
  }
  EXPECT_EQ(state.n_running, 0u);
  EXPECT_EQ(state.backlog.n_prompt + state.backlog.n_decode, 0u);
}

TEST(EngineLoop, ReportsHowAnAnswerEnded) {
  TinyLoop tiny;
  const auto answer = tiny.loop.submit(request(1, 7));
  read(*answer);
  EXPECT_EQ(answer->end().reason, engine::FinishReason::kLength);
  EXPECT_FALSE(answer->end().cancelled);
  EXPECT_EQ(answer->end().n_prompt, 20u);
  EXPECT_GT(answer->end().prompted.count(), 0);
  EXPECT_GT(answer->end().written.count(), 0);
  EXPECT_FALSE(answer->next().has_value());  // again
}

TEST(EngineLoop, SendsEventsAndLogProbabilitiesWithTheirText) {
  TinyLoop tiny;
  AnswerRequest wanted = request(1, 300);
  wanted.options.context.sizes = {64, 128};
  wanted.options.context.policy = context::OverflowPolicy::kRefill;
  wanted.options.context.compaction = {2, 8};
  wanted.options.sampling.logprobs = true;
  const auto answer = tiny.loop.submit(wanted);
  size_t n_events = 0;
  size_t n_sampled = 0;
  while (const std::optional<Chunk> piece = answer->next()) {
    n_events += piece->events.size();
    n_sampled += piece->sampled.size();
  }
  EXPECT_GE(n_events, 3u);
  EXPECT_EQ(n_sampled, 300u);
}

TEST(EngineLoop, InvalidPromptFailsOnlyItsAnswer) {
  TinyLoop tiny;
  const auto good = tiny.loop.submit(request(1, 30));
  const auto bad = tiny.loop.submit(request(2, 30, 2000));
  EXPECT_THROW(read(*bad), Error);
  EXPECT_EQ(read(*good).tokens.size(), 30u);
  EXPECT_FALSE(tiny.loop.broken());
}

TEST(EngineLoop, QueuedRequestsStartInOrder) {
  std::atomic<bool> holds{true};
  TinyLoop tiny({.before_pass = [&] { holds.wait(true); }}, {.max_sequences = 2});
  std::vector<std::shared_ptr<RequestStream>> answers;
  for (unsigned i = 0; i < 6; ++i) answers.push_back(tiny.loop.submit(request(i, 40)));
  holds = false;
  holds.notify_all();
  for (const auto& answer : answers) EXPECT_EQ(read(*answer).tokens.size(), 40u);
  for (size_t i = 2; i < answers.size(); ++i)
    EXPECT_GT(answers[i]->end().queued, answers[i - 2]->end().queued);
}

TEST(EngineLoop, CancelsRunningAndQueuedAnswers) {
  TinyLoop tiny({}, {.max_sequences = 1});
  const auto running = tiny.loop.submit(endless_request(1));
  const auto waiting = tiny.loop.submit(endless_request(2));
  const auto last = tiny.loop.submit(request(3, 5));
  ASSERT_TRUE(running->next().has_value());
  waiting->cancel();
  read(*waiting);
  EXPECT_TRUE(waiting->end().cancelled);
  EXPECT_TRUE(waiting->end().tokens.empty());
  running->cancel();
  read(*running);
  EXPECT_TRUE(running->end().cancelled);
  EXPECT_EQ(read(*last).tokens.size(), 5u);
  EXPECT_EQ(tiny.loop.state().memory.kv_in_use, 0u);
}

TEST(EngineLoop, SlowReaderDelaysOnlyItself) {
  TinyLoop tiny({.max_unread = 64});
  const auto slow = tiny.loop.submit(endless_request(1));
  for (unsigned i = 0; i < 8; ++i)
    EXPECT_EQ(read(*tiny.loop.submit(request(i, 100))).tokens.size(), 100u);
  const std::optional<Chunk> unread = slow->next();
  ASSERT_TRUE(unread.has_value());
  EXPECT_LE(unread->text.size(), 128u);
  // The slow answer continues where it stopped.
  std::string text = unread->text;
  while (text.size() < 500) text += slow->next()->text;
  slow->cancel();
  read(*slow);
}

TEST(EngineLoop, RepetitionEndsAnswersAtTheSameTokenForAnyReader) {
  std::atomic<bool> holds{false};
  TinyLoop tiny({.before_pass = [&] { holds.wait(true); }});
  AnswerRequest wanted = request(1, 200);
  int32_t token = 0;  // a letter, so that the token is valid text by itself
  const auto is_letter = [&](std::string_view piece) {
    return !piece.empty() && std::isalpha(static_cast<unsigned char>(piece.back())) != 0;
  };
  while (!is_letter(tiny.loop.tokenizer().piece(token))) ++token;
  wanted.options.sampling.logit_bias = {{token, 1000.0f}};
  EXPECT_EQ(read(*tiny.loop.submit(wanted)).tokens.size(), 200u);
  wanted.max_repeats = 30;
  const Whole fast = read(*tiny.loop.submit(wanted));
  EXPECT_EQ(fast.tokens, std::vector<int32_t>(32, token));
  // This reader reads only after the answer is complete, so it gets one piece.
  holds = true;
  const auto slow = tiny.loop.submit(wanted);
  holds = false;
  holds.notify_all();
  ASSERT_TRUE(comes_true([&] {
    const LoopState state = tiny.loop.state();
    return state.n_running + state.n_waiting == 0;
  }));
  const std::optional<Chunk> piece = slow->next();
  ASSERT_TRUE(piece.has_value());
  EXPECT_EQ(piece->text, fast.text);
  EXPECT_FALSE(slow->next().has_value());
  EXPECT_EQ(slow->end().tokens, fast.tokens);
  EXPECT_EQ(slow->end().reason, engine::FinishReason::kRepeats);
  EXPECT_EQ(tiny.loop.state().memory.kv_in_use, 0u);
}

TEST(EngineLoop, SleepsWhenIdle) {
  TinyLoop tiny;
  read(*tiny.loop.submit(request(1, 5)));
  const auto used = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000L + usage.ru_utime.tv_usec +
           usage.ru_stime.tv_usec;
  };
  // Idle threads fall asleep soon. The delay depends on the load of the machine.
  long min = 1'000'000;  // microseconds
  for (int i = 0; i < 20 && min >= 20'000; ++i) {
    const long before = used();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    min = std::min(min, used() - before);
  }
  EXPECT_LT(min, 20'000);
}

// Spaces, bytes of characters and stop strings may span tokens and pieces in any way.
TEST(EngineLoop, StreamsTheTextOfItsTokensToAnyReader) {
  TinyLoop tiny({.max_unread = 100}, {.max_sequences = 4});
  const auto sampled = [](unsigned seed) {
    AnswerRequest wanted = request(seed, 200);
    wanted.options.sampling.temperature = 1.5f;
    wanted.options.sampling.seed = seed;
    wanted.options.context.sizes = {64, 128};
    wanted.options.context.policy =
        seed % 2 == 0 ? context::OverflowPolicy::kShift : context::OverflowPolicy::kRefill;
    wanted.options.context.compaction = {2, 8};
    return wanted;
  };
  const auto decoded = [&](const std::vector<int32_t>& tokens) {
    return utf8::sanitized(tiny.loop.tokenizer().decode(tokens));
  };
  // Returns the whole characters of the first n tokens.
  const auto whole_text = [&](std::span<const engine::Sampled> scores, size_t n) {
    std::vector<int32_t> tokens;
    for (const engine::Sampled& one : scores.first(n)) tokens.push_back(one.token);
    const std::string bytes = tiny.loop.tokenizer().decode(tokens);
    return utf8::sanitized(bytes.substr(0, utf8::whole_length(bytes)));
  };
  // Returns whether the last of the tokens begins within the text.
  const auto begins_within = [&](const std::vector<engine::Sampled>& scores, size_t n_text) {
    const size_t n = scores.size();
    return n == 0 || whole_text(scores, n - 1).size() < n_text ||
           whole_text(scores, n).size() == n_text;
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (unsigned round = 0; round < 6; ++round) {
        const unsigned seed = 100 * t + round;
        const Whole all = read(*tiny.loop.submit(sampled(seed)));
        EXPECT_EQ(all.tokens.size(), 200u);
        EXPECT_EQ(all.text, decoded(all.tokens));
        // Repeats the request with a stop string from anywhere in the text, and a reader that
        // pauses.
        AnswerRequest wanted = sampled(seed);
        const size_t from = random() % all.text.size();
        wanted.stop = {all.text.substr(from, 1 + random() % 12), "not in any text"};
        wanted.options.sampling.logprobs = true;
        const auto answer = tiny.loop.submit(wanted);
        std::string text;
        std::vector<engine::Sampled> scores;
        while (const std::optional<Chunk> piece = answer->next()) {
          text += piece->text;
          scores.insert(scores.end(), piece->sampled.begin(), piece->sampled.end());
          EXPECT_TRUE(begins_within(scores, text.size()));
          if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        EXPECT_EQ(text, all.text.substr(0, all.text.find(wanted.stop[0])));
        const std::vector<int32_t>& tokens = answer->end().tokens;
        EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), all.tokens.begin()));
        ASSERT_LE(scores.size(), tokens.size());
        for (size_t i = 0; i < scores.size(); ++i) EXPECT_EQ(scores[i].token, tokens[i]);
        EXPECT_GE(whole_text(scores, scores.size()).size(), text.size());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(EngineLoop, CanBeDestroyedWithAnswersInFlight) {
  std::vector<std::shared_ptr<RequestStream>> answers;
  {
    TinyLoop tiny({}, {.max_sequences = 2});
    for (unsigned i = 0; i < 4; ++i) answers.push_back(tiny.loop.submit(endless_request(i)));
    ASSERT_TRUE(answers[0]->next().has_value());
  }
  for (const auto& answer : answers) {
    read(*answer);
    EXPECT_TRUE(answer->end().cancelled);
  }
}

TEST(EngineLoop, RandomReadersAndCancellationsLoseNothing) {
  TinyLoop tiny({.max_unread = 200}, {.max_sequences = 3});
  std::vector<Whole> alone;
  for (unsigned i = 0; i < 8; ++i) alone.push_back(read(*tiny.loop.submit(request(i, 60))));
  std::atomic<size_t> n_whole{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int round = 0; round < 12; ++round) {
        const unsigned which = random() % 8;
        const auto answer = tiny.loop.submit(request(which, 60));
        const size_t timeout = random() % 3 == 0 ? random() % 40 : SIZE_MAX;
        Whole whole;
        for (size_t n = 0; const std::optional<Chunk> piece = answer->next(); ++n) {
          whole.text += piece->text;
          if (n == timeout) answer->cancel();
          if (random() % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        const std::vector<int32_t>& tokens = answer->end().tokens;
        EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), alone[which].tokens.begin()));
        if (answer->end().cancelled) continue;
        EXPECT_EQ(whole.text, alone[which].text);
        EXPECT_EQ(tokens, alone[which].tokens);
        n_whole.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(n_whole.load(), 20u);
  EXPECT_EQ(tiny.loop.state().n_running, 0u);
  EXPECT_EQ(tiny.loop.state().memory.kv_in_use, 0u);
}

}  // namespace
}  // namespace billow::runner
