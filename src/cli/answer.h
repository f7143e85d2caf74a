// Generates one answer with an engine. Shows text and events as they arrive, and returns the answer
// with its counts and times. Not thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/trace.h"
#include "constraint/grammar.h"
#include "constraint/guide.h"
#include "engine/engine.h"

namespace billow::cli {

struct AnswerSettings {
  engine::SequenceOptions sequence;
  std::vector<std::string> stop;
  std::optional<std::chrono::duration<double>> max_time;  // for prompt and answer together
  bool live_events = false;
  std::optional<constraint::Constraint> constraint = {};  // the form that the answer must have
};

// Counts for the part of an answer that was written on one rung.
struct RungUse {
  size_t rung = 0;
  size_t n_tokens = 0;
  size_t n_decoded = 0;                    // tokens that were decoded one by one
  std::chrono::nanoseconds decode_time{};  // time of the steps that decoded them
};

struct Answer {
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<engine::Sampled> sampled;  // with log probabilities; empty unless they were requested
  size_t n_prompt = 0;
  size_t n_prefilled = 0;  // evaluated prompt tokens; fewer than n_prompt if the answer ended early
  size_t n_drafted = 0;    // tokens that were guessed and evaluated ahead
  size_t n_draft_accepted = 0;  // guessed tokens that became part of the answer
  int64_t seed = 0;
  const char* done_reason = "";  // "stop" or "length"
  const char* stop_reason = "";  // max-tokens, max-time, end-of-text, stop-string,
                                 // grammar-complete, context-full, out-of-memory or interrupted
  std::string error;             // which memory was missing, if memory ran out
  int signal = 0;                // the signal that interrupted the answer; 0: none
  std::chrono::nanoseconds prompt_time{};       // until the first token
  std::chrono::nanoseconds answer_time{};       // since the first token
  std::optional<constraint::GuideStats> guide;  // only with a constraint
  std::vector<engine::SequenceEvent> events;
  std::vector<RungUse> rungs;  // in order of time; never empty
};

// Generates an answer. Ctrl-C, SIGTERM and `max_time` end it early; the result then has the tokens
// so far. `trace` may be null. Passes on Errors of Engine::start and Engine::step.
Answer write_answer(engine::Engine& engine, std::vector<int32_t> prompt,
                    const AnswerSettings& settings, Console& console, Trace* trace);

}  // namespace billow::cli
