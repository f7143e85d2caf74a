// An answer as text: turns the tokens of one sequence into whole characters, cuts them at stop
// strings, and ends the answer of a model that repeats itself without end. One thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/sampling/repetition.h"
#include "engine/sampling/stop_strings.h"
#include "tokenizer/stream_decoder.h"

namespace billow::engine {

// A stretch of a piece of text that is one control token of the vocabulary.
struct TextMark {
  size_t offset = 0;  // bytes, in the piece
  size_t length = 0;
  bool operator==(const TextMark&) const = default;
};

class Generation {
 public:
  // The engine must outlive it. `max_repeats`: how often in a row the text of a token may come
  // again, blanks around it aside, before the answer ends as at a stop string; 0: any number. What
  // counts is the text that each token gives, whenever it is read. `markers`: control tokens that
  // are part of the text, by their texts; what the vocabulary lacks is disregarded, and all other
  // control tokens give no text.
  Generation(Engine& engine, std::vector<int32_t> prompt, const SequenceOptions& options,
             std::vector<std::string> stop, size_t max_repeats = 0,
             const std::vector<std::string>& markers = {});
  // Ends the answer, with kRepetition, where it goes round in a circle: see
  // sampling/repetition.h.
  void end_repetition() { watch_.emplace(); }

  // Takes a token of this sequence from Engine::step() and returns the text that may be shown now,
  // often empty. Ends the sequence when a stop string is complete, or the text was repeated too
  // often; tokens that came with it in the same step are not part of the answer then.
  std::string accept(const Engine::Token& token);
  // What is left to show once the sequence has finished.
  std::string finish();
  // The markers in the text that accept() or finish() has returned last.
  std::span<const TextMark> marks() const noexcept { return marks_; }

  // The stop string that has ended it; empty: none.
  std::string_view stop_string() const noexcept { return stop_.found(); }

  const Sequence& sequence() const noexcept { return *sequence_; }
  // Of the answer: those accepted.
  std::span<const int32_t> tokens() const noexcept {
    return sequence_->tokens().subspan(sequence_->n_prompt(), n_tokens_);
  }
  bool finished() const noexcept { return sequence_->finished(); }
  // Whether a stop string or a repetition has ended it.
  bool has_ended() const noexcept { return has_ended_; }

 private:
  void end(FinishReason reason);
  std::string text_of_marker(int32_t token);
  bool repeats_too_often(const std::string& text);

  Engine& engine_;
  const size_t max_repeats_;
  tokenizer::StreamDecoder decoder_;
  StopStrings stop_;
  std::optional<RepetitionWatch> watch_;
  std::vector<int32_t> markers_;  // rising
  std::vector<TextMark> marks_;
  std::string last_;  // text of a token, without the blanks around it
  size_t n_repeats_ = 0;
  size_t n_tokens_ = 0;  // accepted
  bool has_ended_ = false;
  std::shared_ptr<const Sequence> sequence_;
};

}  // namespace billow::engine
