// Writes one answer with an engine, showing text and events as they come, and tells what it was and
// took. One thread.
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
  std::optional<std::chrono::duration<double>> max_time;  // of prompt and answer together
  bool live_events = false;
  std::optional<constraint::Constraint> constraint = {};  // what the answer is held to
};

// The tokens of an answer that were chosen on one rung.
struct RungUse {
  size_t rung = 0;
  size_t n_tokens = 0;
  size_t n_decoded = 0;  // of them, those written one by one, and the time of their steps
  std::chrono::nanoseconds decode_time{};
};

struct Answer {
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<engine::Sampled> sampled;  // with their log probabilities, where those are wanted
  size_t n_prompt = 0;
  size_t n_prefilled = 0;       // of the prompt: all of it, unless the answer was cut short before
  size_t n_drafted = 0;         // tokens that were guessed and evaluated before they were chosen
  size_t n_draft_accepted = 0;  // of them, those that the answer has
  int64_t seed = 0;
  const char* done_reason = "";  // "stop" or "length"
  const char* stop_reason = "";  // max-tokens, max-time, end-of-text, stop-string,
                                 // grammar-complete, context-full, out-of-memory or interrupted
  std::string error;             // what was missing, where it ended out of memory
  int signal = 0;                // that interrupted it
  std::chrono::nanoseconds prompt_time{};       // to the first token
  std::chrono::nanoseconds answer_time{};       // from the first token on
  std::optional<constraint::GuideStats> guide;  // of what held it
  std::vector<engine::SequenceEvent> events;
  std::vector<RungUse> rungs;  // in the order of time; never empty
};

// Ends early, with what is there by then, on Ctrl-C, on SIGTERM and when the time is over. `trace`
// may be null. Throws Error as Engine::start and Engine::step do.
Answer write_answer(engine::Engine& engine, std::vector<int32_t> prompt,
                    const AnswerSettings& settings, Console& console, Trace* trace);

}  // namespace billow::cli
