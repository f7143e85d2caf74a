// An answer as text: turns the tokens of one sequence into whole characters and cuts them at stop
// strings.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/sampling/stop_strings.h"
#include "tokenizer/stream_decoder.h"

namespace billow::engine {

class Generation {
 public:
  // The engine must outlive it.
  Generation(Engine& engine, std::vector<int32_t> prompt, const SequenceOptions& options,
             std::vector<std::string> stop);

  // Takes a token of this sequence from Engine::step() and returns the text that may be shown now,
  // often empty. Ends the sequence when a stop string is complete.
  std::string accept(const Engine::Token& token);
  // What is left to show once the sequence has finished.
  std::string finish();

  const Sequence& sequence() const noexcept { return *sequence_; }
  bool finished() const noexcept { return sequence_->finished(); }

 private:
  Engine& engine_;
  tokenizer::StreamDecoder decoder_;
  StopStrings stop_;
  std::shared_ptr<const Sequence> sequence_;
};

}  // namespace billow::engine
