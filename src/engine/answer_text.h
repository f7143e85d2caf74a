// The text of an answer out of its tokens: whole characters, cut at stop strings, and ended where
// the model repeats itself without end. It knows no engine: the tokens may come from anywhere. One
// thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/sampling/repetition.h"
#include "engine/sampling/stop_strings.h"
#include "engine/sequence.h"
#include "tokenizer/stream_decoder.h"

namespace billow::engine {

// A stretch of a piece of text that is one control token of the vocabulary.
struct TextMark {
  size_t offset = 0;  // bytes, in the piece
  size_t length = 0;
  bool operator==(const TextMark&) const = default;
};

class AnswerText {
 public:
  // The tokenizer must outlive it. `max_repeats`: how often in a row the text of a token may come
  // again, blanks around it aside, before the answer ends as at a stop string; 0: any number. What
  // counts is the text that each token gives, whenever it is read. `markers`: control tokens that
  // are part of the text, by their texts; what the vocabulary lacks is disregarded, and all other
  // control tokens give no text.
  AnswerText(const tokenizer::Tokenizer& tokenizer, std::vector<std::string> stop,
             size_t max_repeats = 0, const std::vector<std::string>& markers = {});
  // Ends the answer, with kRepetition, where it goes round in a circle: see
  // sampling/repetition.h.
  void end_repetition() { watch_.emplace(); }

  // Takes a token of the answer, no end token, and returns the text that may be shown now, often
  // empty. What comes behind the end is disregarded.
  std::string accept(int32_t token);
  // An end token came: no text comes with it.
  void accept_end() { marks_.clear(); }
  // What is left to show once the answer is over.
  std::string finish();
  // The markers in the text that accept() or finish() has returned last.
  std::span<const TextMark> marks() const noexcept { return marks_; }

  // What has ended it: kStop for a stop string or a repeated text, or kRepetition; empty: nothing.
  std::optional<FinishReason> end() const noexcept { return end_; }
  // The stop string that has ended it; empty: none.
  std::string_view stop_string() const noexcept { return stop_.found(); }

 private:
  std::string text_of_marker(int32_t token);
  bool repeats_too_often(const std::string& text);

  const tokenizer::Tokenizer& tokenizer_;
  const size_t max_repeats_;
  tokenizer::StreamDecoder decoder_;
  StopStrings stop_;
  std::optional<RepetitionWatch> watch_;
  std::vector<int32_t> markers_;  // rising
  std::vector<TextMark> marks_;
  std::string last_;  // text of a token, without the blanks around it
  size_t n_repeats_ = 0;
  std::optional<FinishReason> end_;
};

}  // namespace billow::engine
