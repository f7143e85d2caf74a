// Tracks one answer that llama-server writes. An answer consists of stretches: one request to
// llama-server writes one stretch. The tracker decides which tokens a stretch continues. It also
// decides how many tokens fit before the context must grow or be compacted. It returns the text
// that the client gets. The decisions equal those of Billow's own engine. The class starts no
// process and opens no connection. Not thread-safe.
//
// The number of rows of a prompt's images is an estimate until llama-server reports it. If the
// prompt is longer than its rung, the answer grows before its first token. Compactions keep the
// prompt with all its images. A context with images goes to llama-server as text. llama-server may
// read the written text as more tokens than were written. The tracker counts these additional
// tokens.
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
  // REQUIRES: the tokenizer outlives this object. Throws Error (kUnsupported) for a request that
  // llama-server cannot execute. Throws Error (kTooLarge) for a prompt that is longer than the
  // context.
  AnswerTracker(runner::AnswerRequest request, const tokenizer::Tokenizer& tokenizer,
                size_t max_context);

  // Returns the number of positions that the answer may use at present.
  size_t rung() const noexcept { return rung_; }
  // Returns the next stretch. `media_marker` replaces each image in llama-server's texts. REQUIRES:
  // !ended(); the marker outlives the stretch.
  Stretch stretch(std::string_view media_marker = {}) const;
  // Learns from llama-server how many tokens the stretch continues. llama-server reports the number
  // or puts it into the error that refuses the stretch. Returns false if the number is known.
  // Throws Error (kTooLarge) if the prompt exceeds the context.
  bool learn_length(size_t n_tokens);
  // Returns the number of cells that the stretch needs.
  size_t n_cells() const noexcept { return rung_ + kSpareCells; }

  // Processes an event of the stretch. Returns the piece of the answer that the client gets.
  runner::Chunk take(StretchEvent event);
  // Returns whether to cancel the rest of the stretch: the answer has ended or needs another
  // stretch.
  bool breaks_off() const noexcept { return ended() || breaks_; }

  // Returns what must happen after this stretch. kWrite: nothing.
  context::Decision next() const;
  // Executes kGrow, kCompact or kStop. `time` is the duration of the step. `restarts` says whether
  // llama-server was restarted for the step. Returns the event that the client gets.
  runner::Chunk apply(const context::Decision& decision, std::chrono::nanoseconds time,
                      bool restarts);
  // Replaces a denied kGrow by a compaction on this rung or by kStop. Throws Error (kOutOfMemory)
  // if the prompt alone does not fit.
  context::Decision without_growth() const;

  bool ended() const noexcept { return reason_.has_value(); }
  // Returns the text that was held back. No text follows. REQUIRES: ended().
  runner::Chunk finish();
  void fail(engine::FinishReason reason, std::string error);
  runner::AnswerEnd end() const;

 private:
  using Clock = std::chrono::steady_clock;
  // llama-server stops a few cells before its context is full.
  static constexpr size_t kSpareCells = 8;

  // How the constraint applies to the next token.
  enum class Phase : uint8_t {
    kOpening,      // unconstrained; the text may still begin with `opens_with`
    kFree,         // unconstrained until `starts_after`
    kConstrained,  // the grammar applies, until llama-server ends the text
    kPlain,        // the request has no constraint
  };

  // llama-server cannot continue in the middle of a grammar. A constrained answer therefore gets
  // room for this many tokens at its start, or for `max_new_tokens` if that is less.
  static constexpr size_t kConstrainedTokens = 4096;

  size_t n_left() const noexcept;  // tokens that the answer may still write
  // Positions in the context: tokens and rows of images.
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
  bool leaves_grammar(runner::Chunk& piece);
  void force(const std::string& text, runner::Chunk& piece);
  double decode_rate() const;

  runner::AnswerRequest request_;
  const tokenizer::Tokenizer& tokenizer_;
  context::ContextPlan context_plan_;
  engine::AnswerText text_;
  engine::HeldScores scores_{};
  size_t rung_ = 0;
  const size_t max_context_;  // of the model
  size_t n_rows_ = 0;         // of images
  size_t n_extra_ = 0;        // additional tokens in llama-server's reading of the written text
  std::optional<size_t> n_prompt_reported_;  // by llama-server
  std::vector<WireImage> images_;
  std::vector<int32_t> context_;  // tokens in the context; the last token is not evaluated yet
  std::vector<int32_t> answer_;
  int64_t seed_ = 0;
  size_t n_stretches_ = 0;
  size_t n_of_stretch_ = 0;  // tokens of this stretch so far
  // Tokens at the end of the stretch that complete no character. llama-server does not report them.
  // The next stretch writes them again.
  size_t n_unreported_ = 0;
  bool breaks_ = false;
  Phase phase_ = Phase::kPlain;
  std::vector<engine::Sampled> opening_;  // tokens of kOpening that the client has not got yet
  std::string free_text_;                 // the latest bytes of the unconstrained tokens
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
