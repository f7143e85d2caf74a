#include "engine/generation.h"

#include <utility>

namespace billow::engine {

Generation::Generation(Engine& engine, std::vector<int32_t> prompt, const SequenceOptions& options,
                       std::vector<std::string> stop, size_t max_repeats,
                       const std::vector<std::string>& markers)
    : engine_(engine),
      text_(engine.tokenizer(), std::move(stop), max_repeats, markers),
      sequence_(engine.start(std::move(prompt), options)) {}

std::string Generation::accept(const Engine::Token& token) {
  if (token.is_end || has_ended()) {
    text_.accept_end();
    return "";
  }
  ++n_tokens_;
  std::string text = text_.accept(token.sampled.token);
  if (text_.end()) engine_.finish(*sequence_, *text_.end());
  return text;
}

}  // namespace billow::engine
