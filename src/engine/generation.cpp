#include "engine/generation.h"

#include <utility>

#include "base/text.h"

namespace billow::engine {

Generation::Generation(Engine& engine, std::vector<int32_t> prompt, const SequenceOptions& options,
                       std::vector<std::string> stop, size_t max_repeats)
    : engine_(engine),
      max_repeats_(max_repeats),
      decoder_(engine.tokenizer()),
      stop_(std::move(stop)),
      sequence_(engine.start(std::move(prompt), options)) {}

std::string Generation::accept(const Engine::Token& token) {
  if (token.is_end) return "";
  std::string text = stop_.feed(decoder_.push(token.sampled.token));
  if (stop_.stopped() || repeats_too_often(text)) engine_.finish(*sequence_, FinishReason::kStop);
  return text;
}

bool Generation::repeats_too_often(const std::string& text) {
  if (max_repeats_ == 0 || text.empty()) return false;
  const std::string_view bare = trimmed(text);
  n_repeats_ = bare == last_ ? n_repeats_ + 1 : 0;
  last_ = bare;
  return n_repeats_ > max_repeats_;
}

std::string Generation::finish() {
  if (stop_.stopped()) return "";
  std::string text = stop_.feed(decoder_.finish());
  if (!stop_.stopped()) text += stop_.flush();
  return text;
}

}  // namespace billow::engine
