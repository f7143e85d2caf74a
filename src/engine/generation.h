// An answer as text: a sequence of the engine whose tokens become text, and which ends where the
// text does. One thread at a time.
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

  // Takes a token of this sequence from Engine::step() and returns the text that may be shown now,
  // often empty. Ends the sequence when a stop string is complete, or the text was repeated too
  // often; tokens that came with it in the same step are not part of the answer then.
  std::string accept(const Engine::Token& token);
  // What is left to show once the sequence has finished.
  std::string finish() { return text_.finish(); }
  // The markers in the text that accept() or finish() has returned last.
  std::span<const TextMark> marks() const noexcept { return text_.marks(); }

  // The stop string that has ended it; empty: none.
  std::string_view stop_string() const noexcept { return text_.stop_string(); }

  const Sequence& sequence() const noexcept { return *sequence_; }
  // Of the answer: those accepted.
  std::span<const int32_t> tokens() const noexcept {
    return sequence_->tokens().subspan(sequence_->n_prompt(), n_tokens_);
  }
  bool finished() const noexcept { return sequence_->finished(); }
  // Why it has ended, and what was wrong if something was: the text's own end comes before what the
  // sequence met behind it in the same step. REQUIRES: finished().
  FinishReason finish_reason() const { return text_.end().value_or(sequence_->finish_reason()); }
  std::string error() const { return has_ended() ? "" : sequence_->error(); }
  // Whether a stop string or a repetition has ended it.
  bool has_ended() const noexcept { return text_.end().has_value(); }

 private:
  Engine& engine_;
  AnswerText text_;
  size_t n_tokens_ = 0;  // accepted
  std::shared_ptr<const Sequence> sequence_;
};

}  // namespace billow::engine
