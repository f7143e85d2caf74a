// One generation: its tokens, how far they are evaluated, where its KV lies and how its next token
// is chosen. Made by the Engine and changed by it alone.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "constraint/guide.h"
#include "engine/adapters.h"
#include "engine/draft_model.h"
#include "engine/sampling/sampler.h"
#include "engine/sequence_context.h"
#include "engine/speculation/drafter.h"

namespace billow::engine {

enum class FinishReason : uint8_t {
  kStop,        // the model ended its answer, or a stop string was found
  kLength,      // as many tokens as were asked for, or the context is full
  kRepetition,  // it went round in a circle
  kNoMemory,    // there was none for going on
  kFailed,      // its logits were no numbers, or its grammar became too complex
};

// "stop", "length" or "repetition", as the APIs say it; what ends for a fault is cut short as by
// length.
const char* finish_reason_name(FinishReason reason) noexcept;

// How a sequence's context may grow, and what happens when it is full.
struct ContextOptions {
  size_t max_context = 0;          // positions; 0, or more than the engine's: the engine's
  std::vector<size_t> sizes = {};  // rungs up to that; empty: 512, doubling
  context::OverflowPolicy policy = context::OverflowPolicy::kStop;
  context::CompactionOptions compaction = {};

  // The positions that a context may have on an engine for at most max_of_engine.
  size_t cap(size_t max_of_engine) const noexcept {
    return max_context == 0 ? max_of_engine : std::min(max_context, max_of_engine);
  }
};

// A transition or compaction as it happened.
struct SequenceEvent {
  context::ContextEvent event;
  std::chrono::nanoseconds time{};  // that it took; of a refill, until what is kept is evaluated
  double decode_rate = 0.0;         // tokens/s of writing until then, events not counted
  bool refills = false;             // a compaction whose kept tokens are evaluated again
  bool restarts = false;            // what evaluates began again for it, with more memory
};

struct SequenceOptions {
  SamplingOptions sampling = {};
  // 0: evaluate the prompt only; negative: until the model stops or the context ends it.
  int64_t max_new_tokens = -1;
  bool ignore_eos = false;  // go on past the model's end tokens
  // Keeps the log probabilities of the prompt's tokens, of the kind that `sampling` says. All of
  // the prompt is evaluated then, a few rows at a time.
  bool scores_prompt = false;
  ContextOptions context = {};
  // Holds the answer to a grammar (made with Engine::vocabulary()), for this sequence alone; null:
  // nothing does. The answer ends where the grammar can only end. Tokens that it leaves no choice
  // about are evaluated together, unless log probabilities are wanted of them.
  std::shared_ptr<constraint::Guide> guide = {};
  // Drafted tokens that a pass compares at most for this sequence; 0: none are drafted. Drafts make
  // answers come sooner and change nothing about them.
  size_t max_draft = SIZE_MAX;
  std::vector<int32_t> prediction = {};  // a text that the answer may resemble, to draft from
  AdapterFiles adapters = {};  // what the model is added to by; empty: EngineOptions::adapters
};

class Sequence {
 public:
  Sequence(kv::Cache& cache, std::vector<int32_t> prompt, const SequenceOptions& options,
           Sampler sampler, context::ContextPlan context_plan, size_t rung)
      : tokens_(std::move(prompt)),
        n_prompt_(tokens_.size()),
        context_(cache, std::move(context_plan), rung),
        options_(options),
        sampler_(std::move(sampler)) {}

  std::span<const int32_t> tokens() const noexcept { return tokens_; }  // prompt and answer
  size_t n_prompt() const noexcept { return n_prompt_; }
  size_t n_generated() const noexcept { return tokens_.size() - n_prompt_; }
  // What is left of them in the context: all but n_dropped() behind the anchor.
  size_t n_dropped() const noexcept { return context_.n_dropped(); }
  size_t n_evaluated() const noexcept { return context_.n_held(); }  // tokens whose KV is there
  size_t n_pending() const noexcept { return tokens_.size() - n_dropped() - n_evaluated(); }
  // The token at a position of the context.
  int32_t token_at(size_t position) const noexcept { return tokens_[context_.index_of(position)]; }
  size_t n_shared() const noexcept { return n_shared_; }    // of the prompt: known before it began
  size_t rung() const noexcept { return context_.rung(); }  // positions that it may write to now
  std::span<const SequenceEvent> events() const noexcept { return events_; }
  // Tokens of the answer that were evaluated, but for refills, and the time that it took.
  size_t n_decoded() const noexcept { return n_decoded_; }
  std::chrono::nanoseconds decode_time() const noexcept { return decode_time_; }
  // Drafted tokens that were evaluated, and those that the answer has.
  size_t n_drafted() const noexcept { return n_drafted_; }
  size_t n_draft_accepted() const noexcept { return n_draft_accepted_; }
  bool finished() const noexcept { return finish_reason_.has_value(); }
  FinishReason finish_reason() const { return finish_reason_.value(); }
  bool waiting() const noexcept { return waiting_; }  // for memory, in the last step
  bool held() const noexcept { return held_; }        // by Engine::hold()
  // What was wrong where it ended with kNoMemory or kFailed; else empty.
  const std::string& error() const noexcept { return error_; }
  int64_t seed() const noexcept { return sampler_.seed(); }
  // With scores_prompt: of the prompt's tokens, as far as it is evaluated. The first token has
  // -infinity, as nothing comes before it.
  std::span<const Sampled> prompt_scores() const noexcept { return prompt_scores_; }
  const constraint::Guide* guide() const noexcept { return options_.guide.get(); }

 private:
  friend class Engine;

  bool lacks_adapter() const noexcept { return adapter_ != nullptr && !lease_; }
  // Its prompt is still to be scored.
  bool wants_scores() const noexcept {
    return options_.scores_prompt && prompt_scores_.size() < n_prompt_;
  }

  std::vector<int32_t> tokens_;
  size_t n_prompt_;
  SequenceContext context_;
  std::vector<SequenceEvent> events_;
  std::optional<std::chrono::steady_clock::time_point> refill_start_;  // while one goes on
  size_t n_decoded_ = 0;
  std::chrono::nanoseconds decode_time_{};
  SequenceOptions options_;
  Sampler sampler_;
  std::vector<Sampled> prompt_scores_;
  std::shared_ptr<Adapters::Entry> adapter_;   // null: it has none
  Adapters::Lease lease_;                      // of that; empty: it is not loaded for it yet
  std::optional<Drafter> drafter_;             // once there is something to draft for
  std::optional<DraftModel::Text> read_text_;  // by the draft model, once it guesses
  size_t n_drafted_ = 0;
  size_t n_draft_accepted_ = 0;
  size_t n_shared_ = 0;
  bool waiting_ = false;
  size_t refused_rung_ = 0;  // for which there was no memory; 0: it has what it wants
  bool denied_ = false;      // that memory: it does without, or ends
  bool held_ = false;
  std::string error_;
  std::optional<FinishReason> finish_reason_;
};

}  // namespace billow::engine
