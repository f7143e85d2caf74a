#include "api/answer_scanner.h"

#include <array>
#include <iterator>
#include <random>
#include <utility>

#include "base/text.h"

namespace billow::api {

AnswerScanner::AnswerScanner(AnswerShape shape) {
  if (shape.thinking) thinking_.emplace(std::move(*shape.thinking), shape.begins_in_thinking);
  if (!shape.tools.empty()) tools_.emplace(std::move(shape.tools), std::move(shape.tool_tag));
}

Delta AnswerScanner::add(std::string_view text) {
  Delta delta;
  prompt::ThinkingText parts{{}, std::string(text)};
  if (thinking_) parts = thinking_->add(text);
  delta.thinking = std::move(parts.thinking);
  if (!tools_)
    delta.content = std::move(parts.content);
  else if (!parts.content.empty())
    take(delta, tools_->add(parts.content));
  return delta;
}

Delta AnswerScanner::finish() {
  Delta delta;
  std::string content;
  if (thinking_) {
    prompt::ThinkingText parts = thinking_->finish();
    delta.thinking = std::move(parts.thinking);
    content = std::move(parts.content);
  }
  if (!tools_) {
    delta.content = std::move(content);
    return delta;
  }
  if (!content.empty()) take(delta, tools_->add(content));
  take(delta, tools_->finish());
  return delta;
}

void AnswerScanner::take(Delta& delta, prompt::ToolCallText parsed) {
  delta.content += parsed.text;
  for (prompt::ToolCall& call : parsed.calls) {
    delta.tool_calls.push_back(
        {new_call_id(), call.index, std::move(call.name), std::move(call.arguments)});
  }
}

std::string tool_tag_of_jinja(std::string_view source) {
  constexpr std::array<std::string_view, 5> kTags = {"<tool_call>", "[TOOL_CALLS]", "<|tool_call|>",
                                                     "<|python_tag|>", "functools["};
  for (const std::string_view tag : kTags)
    if (source.find(tag) != std::string_view::npos) return std::string(tag);
  return "{";
}

std::string new_call_id() {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  static thread_local std::mt19937_64 random{std::random_device{}()};
  std::uniform_int_distribution<size_t> any(0, kLetters.size() - 1);
  std::string id = "call_";
  for (int i = 0; i < 8; ++i) id += kLetters[any(random)];
  return id;
}

}  // namespace billow::api
