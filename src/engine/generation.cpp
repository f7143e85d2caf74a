#include "engine/generation.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace billow::engine {

namespace {

std::vector<int32_t> tokens_of(const tokenizer::Tokenizer& tokenizer,
                               const std::vector<std::string>& texts) {
  using tokenizer::TokenType;
  std::vector<int32_t> tokens;
  for (const std::string& text : texts) {
    const int32_t token = tokenizer.find(text);
    if (!tokenizer.has(token)) continue;
    const TokenType type = tokenizer.type(token);
    if (type == TokenType::kControl || type == TokenType::kUserDefined) tokens.push_back(token);
  }
  std::ranges::sort(tokens);
  return tokens;
}

}  // namespace

Generation::Generation(Engine& engine, std::vector<int32_t> prompt, const SequenceOptions& options,
                       std::vector<std::string> stop, size_t max_repeats,
                       const std::vector<std::string>& markers)
    : engine_(engine),
      max_repeats_(max_repeats),
      decoder_(engine.tokenizer()),
      stop_(std::move(stop)),
      markers_(tokens_of(engine.tokenizer(), markers)),
      sequence_(engine.start(std::move(prompt), options)) {}

std::string Generation::accept(const Engine::Token& token) {
  marks_.clear();
  if (token.is_end || has_ended_) return "";
  ++n_tokens_;
  const int32_t id = token.sampled.token;
  std::string text =
      std::ranges::binary_search(markers_, id) ? text_of_marker(id) : stop_.feed(decoder_.push(id));
  if (stop_.stopped() || repeats_too_often(text))
    end(FinishReason::kStop);
  else if (watch_ && watch_->add(id))
    end(FinishReason::kRepetition);
  return text;
}

void Generation::end(FinishReason reason) {
  has_ended_ = true;
  engine_.finish(*sequence_, reason);
}

// A stop string may be found within a marker, but not across its borders.
std::string Generation::text_of_marker(int32_t token) {
  std::string text = stop_.feed(decoder_.finish());
  if (stop_.stopped()) return text;
  text += stop_.flush();
  const std::string_view marker = engine_.tokenizer().piece(token, true);
  const size_t begin = text.size();
  text += stop_.feed(marker);
  if (stop_.stopped()) return text;
  text += stop_.flush();
  marks_.push_back({begin, marker.size()});
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
  marks_.clear();
  if (stop_.stopped()) return "";
  std::string text = stop_.feed(decoder_.finish());
  if (!stop_.stopped()) text += stop_.flush();
  return text;
}

}  // namespace billow::engine
