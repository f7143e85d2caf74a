#include "engine/generation.h"

#include <utility>

namespace billow::engine {

Generation::Generation(Engine& engine, std::vector<int32_t> prompt, const SequenceOptions& options,
                       std::vector<std::string> stop)
    : engine_(engine),
      decoder_(engine.tokenizer()),
      stop_(std::move(stop)),
      sequence_(engine.start(std::move(prompt), options)) {}

std::string Generation::accept(const Engine::Token& token) {
  if (token.is_end) return "";
  std::string text = stop_.feed(decoder_.push(token.sampled.token));
  if (stop_.stopped()) engine_.finish(*sequence_, FinishReason::kStop);
  return text;
}

std::string Generation::finish() {
  if (stop_.stopped()) return "";
  std::string text = stop_.feed(decoder_.finish());
  if (!stop_.stopped()) text += stop_.flush();
  return text;
}

}  // namespace billow::engine
