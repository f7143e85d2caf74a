// An answer as text: turns the tokens of one sequence into whole characters, cuts them at stop
// strings, and ends the answer of a model that repeats itself without end. One thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/sampling/stop_strings.h"
#include "tokenizer/stream_decoder.h"

namespace billow::engine {

class Generation {
 public:
  // The engine must outlive it. `max_repeats`: how often in a row the text of a token may come
  // again, blanks around it aside, before the answer ends as at a stop string; 0: any number. What
  // counts is the text that each token gives, whenever it is read.
  Generation(Engine& engine, std::vector<int32_t> prompt, const SequenceOptions& options,
             std::vector<std::string> stop, size_t max_repeats = 0);

  // Takes a token of this sequence from Engine::step() and returns the text that may be shown now,
  // often empty. Ends the sequence when a stop string is complete, or the text was repeated too
  // often.
  std::string accept(const Engine::Token& token);
  // What is left to show once the sequence has finished.
  std::string finish();

  const Sequence& sequence() const noexcept { return *sequence_; }
  bool finished() const noexcept { return sequence_->finished(); }

 private:
  bool repeats_too_often(const std::string& text);

  Engine& engine_;
  const size_t max_repeats_;
  tokenizer::StreamDecoder decoder_;
  StopStrings stop_;
  std::string last_;  // text of a token, without the blanks around it
  size_t n_repeats_ = 0;
  std::shared_ptr<const Sequence> sequence_;
};

}  // namespace billow::engine
