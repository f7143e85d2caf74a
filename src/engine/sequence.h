// One generation: its tokens, how many are evaluated, its KV and its sampler. Only the Engine
// creates and changes it.
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
#include "engine/pictures.h"
#include "engine/sampling/sampler.h"
#include "engine/sequence_context.h"
#include "engine/speculation/drafter.h"

namespace billow::engine {

enum class FinishReason : uint8_t {
  kStop,        // the model ended its answer, or a stop string was found
  kLength,      // max_new_tokens is reached, or the context is full
  kRepetition,  // the answer looped
  kRepeats,     // the text of one token was repeated too often
  kNoMemory,    // no memory to continue
  kFailed,      // the logits were not finite, or the grammar became too complex
};

// Returns "stop", "length", "repetition" or "repeats", as in AnswerEnd. An answer that ends with an
// error counts as "length".
const char* finish_reason_name(FinishReason reason) noexcept;

// How a sequence's context may grow, and what happens when it is full.
struct ContextOptions {
  size_t max_context = 0;          // positions; 0 or above the engine's limit: the engine's limit
  std::vector<size_t> sizes = {};  // rungs up to max_context; empty: 512, doubling
  context::OverflowPolicy policy = context::OverflowPolicy::kStop;
  context::CompactionOptions compaction = {};

  // Returns the max positions of a context on an engine for at most max_of_engine.
  size_t cap(size_t max_of_engine) const noexcept {
    return max_context == 0 ? max_of_engine : std::min(max_context, max_of_engine);
  }
};

// A transition or compaction that happened.
struct SequenceEvent {
  context::ContextEvent event;
  std::chrono::nanoseconds time{};  // duration; of a refill, until the kept tokens are evaluated
  double decode_rate = 0.0;         // tokens/s of generation until then, without the time of events
  bool refills = false;             // a compaction whose kept tokens are evaluated again
  bool restarts = false;            // the evaluation restarted with more memory
};

struct SequenceOptions {
  SamplingOptions sampling = {};
  // 0: evaluate the prompt only; negative: until the model stops or the context is full.
  int64_t max_new_tokens = -1;
  bool ignore_eos = false;  // continue after the model's end tokens
  bool is_bulk = false;     // its prompt waits for the prompts of other sequences
  // Keeps the log probabilities of the prompt's tokens, of the kind in `sampling`. The whole prompt
  // is then evaluated, a few rows at a time.
  bool scores_prompt = false;
  ContextOptions context = {};
  // Constrains the answer to a grammar (created with Engine::vocabulary()), for this sequence only;
  // null: no grammar. The answer ends when the grammar can only end. Tokens that the grammar forces
  // are evaluated together, unless log probabilities are wanted.
  std::shared_ptr<constraint::Guide> guide = {};
  // Max drafted tokens of a pass for this sequence; 0: no drafts. Drafts make answers faster and
  // never change them.
  size_t max_draft = SIZE_MAX;
  std::vector<int32_t> prediction = {};  // a text similar to the expected answer, to draft from
  AdapterFiles adapters = {};            // empty: EngineOptions::adapters
  // Sequences with different salts share no prefixes, no drafts from answers and no pictures. 0: no
  // salt. At most kv::kMaxSalt.
  uint64_t salt = 0;
  // The pictures of the prompt, with their embeddings, in the order of their tokens.
  std::vector<std::shared_ptr<Picture>> pictures = {};
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

  // Prompt and answer. Tokens of pictures are negative.
  std::span<const int32_t> tokens() const noexcept { return tokens_; }
  size_t n_prompt() const noexcept { return n_prompt_; }
  size_t n_generated() const noexcept { return tokens_.size() - n_prompt_; }
  // Number of tokens that are no longer in the context. Dropped tokens directly follow the anchor.
  size_t n_dropped() const noexcept { return context_.n_dropped(); }
  size_t n_evaluated() const noexcept { return context_.n_held(); }  // tokens with KV
  size_t n_pending() const noexcept { return tokens_.size() - n_dropped() - n_evaluated(); }
  // Returns the token at a position of the context.
  int32_t token_at(size_t position) const noexcept { return tokens_[context_.index_of(position)]; }
  size_t n_shared() const noexcept { return n_shared_; }    // prompt tokens from the prefix cache
  size_t rung() const noexcept { return context_.rung(); }  // positions that it may use now
  std::span<const SequenceEvent> events() const noexcept { return events_; }
  // Evaluated tokens of the answer without refills, and the time for them.
  size_t n_decoded() const noexcept { return n_decoded_; }
  // Time of passes over pictures while the sequence waited for one of them.
  std::chrono::nanoseconds picture_time() const noexcept { return picture_time_; }
  std::chrono::nanoseconds decode_time() const noexcept { return decode_time_; }
  // Drafted tokens that were evaluated, and those that became part of the answer.
  size_t n_drafted() const noexcept { return n_drafted_; }
  size_t n_draft_accepted() const noexcept { return n_draft_accepted_; }
  bool finished() const noexcept { return finish_reason_.has_value(); }
  FinishReason finish_reason() const { return finish_reason_.value(); }
  bool waiting() const noexcept { return waiting_; }  // for memory, in the last step
  bool held() const noexcept { return held_; }        // see Engine::hold()
  // The error if it ended with kNoMemory or kFailed; else empty.
  const std::string& error() const noexcept { return error_; }
  int64_t seed() const noexcept { return sampler_.seed(); }
  // With scores_prompt: scores of the evaluated prompt tokens. The first token has -infinity,
  // because no token is before it.
  std::span<const Sampled> prompt_scores() const noexcept { return prompt_scores_; }
  const constraint::Guide* guide() const noexcept { return options_.guide.get(); }

 private:
  friend class Engine;

  bool lacks_adapter() const noexcept { return adapter_ != nullptr && !lease_; }
  // Whether prompt tokens are still to be scored.
  bool wants_scores() const noexcept {
    return options_.scores_prompt && prompt_scores_.size() < n_prompt_;
  }

  std::vector<int32_t> tokens_;  // negative for tokens of pictures
  PlacedPictures pictures_;
  size_t n_prompt_;
  // Tokens that are evaluated as a text that is read: the prompt, or all tokens before a refill. So
  // a refill gives what a prompt with the same tokens gives.
  size_t n_read_ = n_prompt_;
  SequenceContext context_;
  std::vector<SequenceEvent> events_;
  std::optional<std::chrono::steady_clock::time_point> refill_start_;  // during a refill
  std::chrono::nanoseconds picture_time_{};
  size_t n_decoded_ = 0;
  std::chrono::nanoseconds decode_time_{};
  SequenceOptions options_;
  Sampler sampler_;
  std::vector<Sampled> prompt_scores_;
  std::shared_ptr<Adapters::Entry> adapter_;  // null: none
  Adapters::Lease lease_;           // of adapter_; empty: not loaded for this sequence yet
  std::optional<Drafter> drafter_;  // created at the first draft
  // Part that the draft model has read; created at its first guess, or with a head's first states.
  std::optional<DraftModel::Text> read_text_;
  size_t n_drafted_ = 0;
  size_t n_draft_accepted_ = 0;
  size_t n_shared_ = 0;
  bool waiting_ = false;
  size_t refused_rung_ = 0;  // rung that was refused for lack of memory; 0: none
  // Bytes that were refused for encoding the next picture; 0: none.
  uint64_t refused_picture_bytes_ = 0;
  bool denied_ = false;  // no budget will be added for refused_rung_: continues without it, or ends
  bool held_ = false;
  std::string error_;
  std::optional<FinishReason> finish_reason_;
};

}  // namespace billow::engine
