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
  std::string text = std::ranges::binary_search(markers_, token) ? text_of_marker(token)
                                                                 : stop_.feed(decoder_.push(token));
  if (stop_.stopped())
    end_ = FinishReason::kStop;
  else if (repeats_too_often(text))
    end_ = FinishReason::kRepeats;
  else if (watch_ && watch_->add(token))
    end_ = FinishReason::kRepetition;
  return text;
}

// A stop string is found within a marker, but not across its borders.
std::string AnswerText::text_of_marker(int32_t token) {
  std::string text = stop_.feed(decoder_.finish());
  if (stop_.stopped()) return text;
  text += stop_.flush();
  const std::string_view marker = tokenizer_.piece(token, true);
  const size_t begin = text.size();
  text += stop_.feed(marker);
  if (stop_.stopped()) return text;
  text += stop_.flush();
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
  std::string text = stop_.feed(decoder_.finish());
  if (!stop_.stopped()) text += stop_.flush();
  return text;
}

}  // namespace billow::engine
