// An answer as text: a sequence of the engine and the text of its tokens. The sequence ends when
// its text ends. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/answer_text.h"
#include "engine/engine.h"

namespace billow::engine {

class Generation {
 public:
  // The engine must outlive it. `stop`, `max_repeats` and `markers`: see AnswerText.
  Generation(Engine& engine, std::vector<int32_t> prompt, const SequenceOptions& options,
             std::vector<std::string> stop, size_t max_repeats = 0,
             const std::vector<std::string>& markers = {});
  void end_repetition() { text_.end_repetition(); }  // see AnswerText

  // Adds a token of this sequence from Engine::step() and returns the text that can be shown now,
  // often empty. Ends the sequence if a stop string is complete or the text repeats too often.
  // Later tokens of the same step are then not part of the answer.
  std::string accept(const Engine::Token& token);
  // Returns the remaining text after the sequence has finished.
  std::string finish() { return text_.finish(); }
  // Returns the markers in the text that accept() or finish() returned last.
  std::span<const TextMark> marks() const noexcept { return text_.marks(); }

  // Returns how many of the accepted tokens are shown: see AnswerText.
  size_t n_shown() const noexcept { return text_.n_shown(); }

  // Returns the stop string that was found; empty: none.
  std::string_view stop_string() const noexcept { return text_.stop_string(); }

  const Sequence& sequence() const noexcept { return *sequence_; }
  // Returns the accepted tokens of the answer.
  std::span<const int32_t> tokens() const noexcept {
    return sequence_->tokens().subspan(sequence_->n_prompt(), n_tokens_);
  }
  bool finished() const noexcept { return sequence_->finished(); }
  // finish_reason() and error() return why the answer ended. If the text ended the answer, they
  // ignore later events of the sequence in the same step. REQUIRES: finished().
  FinishReason finish_reason() const { return text_.end().value_or(sequence_->finish_reason()); }
  std::string error() const { return has_ended() ? "" : sequence_->error(); }
  // Returns whether a stop string or a repetition ended the answer.
  bool has_ended() const noexcept { return text_.end().has_value(); }

 private:
  Engine& engine_;
  AnswerText text_;
  size_t n_tokens_ = 0;  // accepted
  std::shared_ptr<const Sequence> sequence_;
};

}  // namespace billow::engine
