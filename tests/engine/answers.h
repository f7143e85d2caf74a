// Reads whole answers of engines with and without drafts, and compares them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/generation.h"
#include "engine/tiny_engine.h"

namespace billow::engine {

using Tokens = std::vector<int32_t>;

inline EngineOptions drafting(EngineOptions options = {}) {
  options.drafts_eagerly = true;
  return options;
}

inline EngineOptions plain(EngineOptions options = {}) {
  options.max_draft = 0;
  return options;
}

struct Whole {
  std::string text;
  Tokens tokens;
  std::vector<Sampled> sampled;
  FinishReason reason{};
  std::string stop_string;
  std::vector<context::ContextEvent> events;
  size_t n_drafted = 0;
  size_t n_accepted = 0;
  size_t n_steps = 0;
};

// Runs the engine until all generations have ended. Returns their answers.
inline std::vector<Whole> read_all(Engine& engine,
                                   const std::vector<std::unique_ptr<Generation>>& generations) {
  std::vector<Whole> all(generations.size());
  while (!engine.idle()) {
    const std::vector<Engine::Token> tokens = engine.step();
    for (size_t i = 0; i < all.size(); ++i) {
      bool any = false;
      for (const Engine::Token& token : tokens) {
        Generation& generation = *generations[i];
        if (token.sequence.get() != &generation.sequence() || generation.has_ended()) continue;
        any = true;
        all[i].sampled.push_back(token.sampled);
        all[i].text += generation.accept(token);
      }
      all[i].n_steps += any ? 1 : 0;
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    Generation& generation = *generations[i];
    const Sequence& sequence = generation.sequence();
    all[i].text += generation.finish();
    all[i].tokens.assign(generation.tokens().begin(), generation.tokens().end());
    all[i].reason = generation.finish_reason();
    all[i].stop_string = generation.stop_string();
    for (const SequenceEvent& event : sequence.events()) all[i].events.push_back(event.event);
    all[i].n_drafted = sequence.n_drafted();
    all[i].n_accepted = sequence.n_draft_accepted();
  }
  return all;
}

inline Whole answer(Engine& engine, const Tokens& prompt, const SequenceOptions& options,
                    std::vector<std::string> stop = {}) {
  std::vector<std::unique_ptr<Generation>> one;
  one.push_back(std::make_unique<Generation>(engine, prompt, options, std::move(stop)));
  return read_all(engine, one).front();
}

inline void expect_same(const Whole& expected, const Whole& found, const std::string& what) {
  SCOPED_TRACE(what);
  EXPECT_EQ(found.tokens, expected.tokens);
  EXPECT_EQ(found.text, expected.text);
  EXPECT_EQ(found.reason, expected.reason);
  EXPECT_EQ(found.stop_string, expected.stop_string);
  ASSERT_EQ(found.sampled.size(), expected.sampled.size());
  for (size_t i = 0; i < found.sampled.size(); ++i) {
    EXPECT_EQ(found.sampled[i].logprob, expected.sampled[i].logprob) << i;
    ASSERT_EQ(found.sampled[i].top.size(), expected.sampled[i].top.size()) << i;
    for (size_t k = 0; k < found.sampled[i].top.size(); ++k) {
      EXPECT_EQ(found.sampled[i].top[k].token, expected.sampled[i].top[k].token) << i;
      EXPECT_EQ(found.sampled[i].top[k].logprob, expected.sampled[i].top[k].logprob) << i;
    }
  }
  ASSERT_EQ(found.events.size(), expected.events.size());
  for (size_t i = 0; i < found.events.size(); ++i) {
    EXPECT_EQ(found.events[i].step, expected.events[i].step);
    EXPECT_EQ(found.events[i].from, expected.events[i].from);
    EXPECT_EQ(found.events[i].to, expected.events[i].to);
    EXPECT_EQ(found.events[i].n_held, expected.events[i].n_held);
    EXPECT_EQ(found.events[i].n_generated, expected.events[i].n_generated);
    EXPECT_EQ(found.events[i].compaction.keep, expected.events[i].compaction.keep);
    EXPECT_EQ(found.events[i].compaction.drop, expected.events[i].compaction.drop);
  }
}

inline SequenceOptions drawn(int64_t seed, int64_t n = 80) {
  SequenceOptions options;
  options.sampling.temperature = 1.0f;
  options.sampling.seed = seed;
  options.max_new_tokens = n;
  options.ignore_eos = true;
  return options;
}

// Returns ways of choosing tokens that drafts must not change.
inline std::vector<SequenceOptions> ways_to_draw() {
  SequenceOptions penalties = drawn(3);
  penalties.sampling.temperature = 0.8f;
  penalties.sampling.repeat_penalty = 1.2f;
  penalties.sampling.presence_penalty = 0.4f;
  SequenceOptions logprobs = drawn(4);
  logprobs.sampling.logprobs = true;
  logprobs.sampling.top_logprobs = 5;
  SequenceOptions cold = drawn(5);
  cold.sampling.temperature = 0.2f;
  cold.sampling.logprobs = true;
  return {greedy(80), drawn(2), penalties, logprobs, cold};
}

// Returns the text with random errors, so that only some of its tokens are accepted as drafts.
inline Tokens edited(Tokens text, unsigned seed, unsigned n_vocab = 300) {
  std::mt19937 random(seed);
  for (size_t i = 0; i < text.size(); ++i) {
    if (random() % 7 == 0) text[i] = static_cast<int32_t>(random() % n_vocab);
    if (random() % 19 == 0) text.erase(text.begin() + static_cast<long>(i));
    if (random() % 19 == 0)
      text.insert(text.begin() + static_cast<long>(std::min(i, text.size())), 17);
  }
  return text;
}

}  // namespace billow::engine
