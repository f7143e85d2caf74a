#include "engine/answer_text.h"

#include <algorithm>
#include <string_view>
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

AnswerText::AnswerText(const tokenizer::Tokenizer& tokenizer, std::vector<std::string> stop,
                       size_t max_repeats, const std::vector<std::string>& markers)
    : tokenizer_(tokenizer),
      max_repeats_(max_repeats),
      decoder_(tokenizer),
      stop_(std::move(stop)),
      markers_(tokens_of(tokenizer, markers)) {}

std::string AnswerText::accept(int32_t token) {
  marks_.clear();
  if (end_) return "";
  held_.push_back(n_fed_bytes_);
  std::string text = std::ranges::binary_search(markers_, token) ? text_of_marker(token)
                                                                 : feed(decoder_.push(token));
  if (stop_.stopped())
    end_ = FinishReason::kStop;
  else if (repeats_too_often(text))
    end_ = FinishReason::kRepeats;
  else if (watch_ && watch_->add(token))
    end_ = FinishReason::kRepetition;
  show_tokens();
  return text;
}

std::string AnswerText::feed(std::string_view text) {
  n_fed_bytes_ += text.size();
  std::string shown = stop_.feed(text);
  n_shown_bytes_ += shown.size();
  return shown;
}

std::string AnswerText::flush() {
  std::string shown = stop_.flush();
  n_shown_bytes_ += shown.size();
  return shown;
}

void AnswerText::show_tokens() {
  const bool holds_text = n_shown_bytes_ < n_fed_bytes_ || decoder_.n_pending_bytes() > 0;
  while (!held_.empty() && (!holds_text || held_.front() < n_shown_bytes_)) {
    held_.pop_front();
    ++n_shown_;
  }
}

// A stop string is found within a marker, but not across its borders.
std::string AnswerText::text_of_marker(int32_t token) {
  std::string text = feed(decoder_.finish());
  if (stop_.stopped()) return text;
  text += flush();
  held_.back() = n_fed_bytes_;
  const std::string_view marker = tokenizer_.piece(token, true);
  const size_t begin = text.size();
  text += feed(marker);
  if (stop_.stopped()) return text;
  text += flush();
  marks_.push_back({begin, marker.size()});
  return text;
}

bool AnswerText::repeats_too_often(const std::string& text) {
  if (max_repeats_ == 0 || text.empty()) return false;
  const std::string_view bare = trimmed(text);
  n_repeats_ = bare == last_ ? n_repeats_ + 1 : 0;
  last_ = bare;
  return n_repeats_ > max_repeats_;
}

std::string AnswerText::finish() {
  marks_.clear();
  if (stop_.stopped()) return "";
  std::string text = feed(decoder_.finish());
  if (!stop_.stopped()) text += flush();
  show_tokens();
  return text;
}

void HeldScores::take(size_t n_shown, std::vector<Sampled>& shown) {
  for (; n_taken_ < n_shown && !held_.empty(); ++n_taken_) {
    shown.push_back(std::move(held_.front()));
    held_.pop_front();
  }
}

}  // namespace billow::engine
