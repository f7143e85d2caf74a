// Converts the tokens of an answer to text: whole characters, truncated at stop strings. Also
// detects endless repetition. Independent of the engine. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/sampling/repetition.h"
#include "engine/sampling/sampler.h"
#include "engine/sampling/stop_strings.h"
#include "engine/sequence.h"
#include "tokenizer/stream_decoder.h"

namespace billow::engine {

// A part of a text that is one control token of the vocabulary.
struct TextMark {
  size_t offset = 0;  // in bytes, within the text
  size_t length = 0;
  bool operator==(const TextMark&) const = default;
};

class AnswerText {
 public:
  // The tokenizer must outlive this object. `max_repeats`: how many times in a row the text of a
  // token, without blanks around it, may repeat; 0: no limit. One more repetition ends the answer
  // with kRepeats. Only the text of each token counts, not when the token is accepted.
  // `markers`: texts of control tokens that are part of the answer's text. Markers that the
  // vocabulary lacks are ignored. All other control tokens have no text.
  AnswerText(const tokenizer::Tokenizer& tokenizer, std::vector<std::string> stop,
             size_t max_repeats = 0, const std::vector<std::string>& markers = {});
  // Enables the end with kRepetition if the answer loops: see sampling/repetition.h.
  void end_repetition() { watch_.emplace(); }

  // Adds a token of the answer (no end token) and returns the text that can be shown now, often
  // empty. Ignores tokens after the end.
  std::string accept(int32_t token);
  // Handles an end token, which has no text.
  void accept_end() { marks_.clear(); }
  // Returns the remaining text after the answer has ended.
  std::string finish();
  // Returns the markers in the text that accept() or finish() returned last.
  std::span<const TextMark> marks() const noexcept { return marks_; }

  // Returns why the text ended: kStop for a stop string, kRepeats or kRepetition; empty: not ended
  // by the text.
  std::optional<FinishReason> end() const noexcept { return end_; }
  // Returns the stop string that was found; empty: none.
  std::string_view stop_string() const noexcept { return stop_.found(); }
  // Returns the number of accepted tokens that are shown. A token is shown when accept() or
  // finish() has returned the first byte of its text. A token without text is shown with the next
  // token. If no text is held back, all tokens are shown. The tokens of a stop string are never
  // shown.
  size_t n_shown() const noexcept { return n_shown_; }

 private:
  std::string text_of_marker(int32_t token);
  std::string feed(std::string_view text);
  std::string flush();
  void show_tokens();
  bool repeats_too_often(const std::string& text);

  const tokenizer::Tokenizer& tokenizer_;
  const size_t max_repeats_;
  tokenizer::StreamDecoder decoder_;
  StopStrings stop_;
  std::optional<RepetitionWatch> watch_;
  std::vector<int32_t> markers_;  // ascending
  std::vector<TextMark> marks_;
  std::string last_;  // text of the last token, without the blanks around it
  size_t n_repeats_ = 0;
  std::optional<FinishReason> end_;
  size_t n_fed_bytes_ = 0;     // of text, to stop_
  size_t n_shown_bytes_ = 0;   // of text, from stop_
  std::deque<size_t> held_{};  // for each token that is not shown: the byte where its text begins
  size_t n_shown_ = 0;         // tokens
};

// Holds back the log probabilities of tokens until their text is shown.
class HeldScores {
 public:
  void add(Sampled sampled) { held_.push_back(std::move(sampled)); }
  // Appends the scores of the first `n_shown` tokens of the answer to `shown`. Scores of earlier
  // calls are not appended again.
  void take(size_t n_shown, std::vector<Sampled>& shown);

 private:
  std::deque<Sampled> held_{};
  size_t n_taken_ = 0;
};

}  // namespace billow::engine
