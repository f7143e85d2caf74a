// The course of one answer on llama-server: which tokens each stretch continues, how many tokens
// may come before the context must grow or be compacted, and the text. The decisions are those of
// Billow's own engine. This class starts no process and opens no connection. One thread.
//
// How many rows the images of a prompt take is an estimate until llama-server has said it. An
// answer whose prompt proves longer than its rung grows before it is written. Compactions keep the
// prompt, and so all its images. A context with images goes to llama-server as text, and the text
// of what was written may become more tokens than were written: those count, too.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "context/run_plan.h"
#include "engine/answer_text.h"
#include "llama/wire.h"
#include "runner/engine_loop.h"
#include "tokenizer/tokenizer.h"

namespace billow::llama {

class AnswerTracker {
 public:
  // REQUIRES: the tokenizer outlives this. Throws Error for what llama-server cannot do
  // (kUnsupported), and for a prompt that is longer than the context (kTooLarge).
  AnswerTracker(runner::AnswerRequest request, const tokenizer::Tokenizer& tokenizer,
                size_t max_context);

  // Positions that the answer may use now.
  size_t rung() const noexcept { return rung_; }
  // The next stretch. `media_marker`: what stands for an image in llama-server's texts.
  // REQUIRES: !ended(); the marker outlives the stretch.
  Stretch stretch(std::string_view media_marker = {}) const;
  // llama-server says, or refuses the stretch because of it, that what the stretch continues has
  // this many tokens. False: that is no news. Throws Error (kTooLarge) for a prompt that is more
  // than the context can hold.
  bool learn_length(size_t n_tokens);
  // The cells that the stretch needs.
  size_t n_cells() const noexcept { return rung_ + kSpareCells; }

  // Takes an event of the stretch and returns the piece of the answer to show.
  runner::Chunk take(StretchEvent event);
  // The rest of the stretch is not wanted: the answer has ended, or needs another stretch now.
  bool breaks_off() const noexcept { return ended() || breaks_; }

  // The stretch is over. Says what must happen before the next one. kWrite: nothing.
  context::Decision next() const;
  // Carries out kGrow, kCompact and kStop. `time`: how long the step took. `restarts`: llama-server
  // was started again for it. Returns the event to show.
  runner::Chunk apply(const context::Decision& decision, std::chrono::nanoseconds time,
                      bool restarts);
  // Replaces a kGrow that was denied: a compaction on this rung, or a kStop. Throws Error
  // (kOutOfMemory) where not even the prompt has room.
  context::Decision without_growth() const;

  bool ended() const noexcept { return reason_.has_value(); }
  // The text that was held back. Nothing follows. REQUIRES: ended().
  runner::Chunk finish();
  void fail(engine::FinishReason reason, std::string error);
  runner::AnswerEnd end() const;

 private:
  using Clock = std::chrono::steady_clock;
  // llama-server stops a little before its context is full.
  static constexpr size_t kSpareCells = 8;

  // How the constraint applies to the next token.
  enum class Phase : uint8_t {
    kOpening,      // free, while the text may still open with `opens_with`
    kFree,         // until `starts_after`
    kConstrained,  // held to the grammar
    kPlain,        // there is no constraint
  };

  // llama-server cannot continue in the middle of a grammar. So an answer that is held to one gets
  // room for this many tokens at its start, or for as many as were asked for.
  static constexpr size_t kConstrainedTokens = 4096;

  size_t n_left() const noexcept;  // tokens that may still be written
  // Positions of what is in the context: tokens and rows of images.
  size_t length() const noexcept { return context_.size() + n_rows_ + n_extra_; }
  size_t n_prompt() const noexcept { return request_.prompt.size() + n_rows_; }
  WireText wire_text(std::string_view media_marker) const;
  size_t rung_of_constrained() const noexcept;
  Phase first_phase() const;
  void take_token(int32_t token, engine::Sampled sampled, runner::Chunk& piece);
  void take_missing(std::string_view text, size_t n, runner::Chunk& piece);
  void write(int32_t token, const engine::Sampled& sampled, runner::Chunk& piece);
  bool is_opening();
  void watch_for_start(int32_t token, runner::Chunk& piece);
  void constrain();
  double decode_rate() const;

  runner::AnswerRequest request_;
  const tokenizer::Tokenizer& tokenizer_;
  context::ContextPlan context_plan_;
  engine::AnswerText text_;
  size_t rung_ = 0;
  const size_t max_context_;  // of the model
  size_t n_rows_ = 0;         // of images
  size_t n_extra_ = 0;        // tokens that the written text has more in llama-server's reading
  std::optional<size_t> n_prompt_said_;  // by llama-server
  std::vector<WireImage> images_;
  std::vector<int32_t> context_;  // tokens in the context; the last one is not evaluated yet
  std::vector<int32_t> answer_;
  int64_t seed_ = 0;
  size_t n_stretches_ = 0;
  size_t n_of_stretch_ = 0;  // tokens of this stretch so far
  // Tokens at the end of the stretch that complete no character: llama-server does not tell them.
  // The next stretch writes them again.
  size_t n_unreported_ = 0;
  bool breaks_ = false;
  Phase phase_ = Phase::kPlain;
  std::vector<engine::Sampled> opening_;  // tokens of kOpening that are not written yet
  std::string free_text_;                 // the latest bytes of the free tokens
  size_t n_free_ = 0;
  size_t n_constrained_ = 0;
  bool has_end_token_ = false;
  size_t n_cached_ = 0;
  std::string error_;
  std::optional<engine::FinishReason> reason_;
  Clock::time_point begun_ = Clock::now();
  std::optional<Clock::time_point> first_;
};

}  // namespace billow::llama
