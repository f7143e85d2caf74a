#include "api/generation.h"

#include <algorithm>
#include <utility>

namespace billow::api {

std::string Message::text() const {
  std::string all;
  for (const Part& part : parts) {
    const auto* one = std::get_if<TextPart>(&part);
    if (one == nullptr) continue;
    if (!all.empty() && !one->text.empty()) all += "\n\n";
    all += one->text;
  }
  return all;
}

std::string Message::thinking() const {
  std::string all;
  for (const Part& part : parts)
    if (const auto* one = std::get_if<ThinkingPart>(&part)) all += one->text;
  return all;
}

size_t Message::n_images() const noexcept {
  return static_cast<size_t>(std::ranges::count_if(
      parts, [](const Part& part) { return std::holds_alternative<ImagePart>(part); }));
}

std::vector<const ToolCall*> Message::tool_calls() const {
  std::vector<const ToolCall*> calls;
  for (const Part& part : parts)
    if (const auto* one = std::get_if<ToolCall>(&part)) calls.push_back(one);
  return calls;
}

Message text_message(std::string role, std::string text) {
  Message message{.role = std::move(role)};
  if (!text.empty()) message.parts.push_back(TextPart{std::move(text)});
  return message;
}

Message& turn_of(std::vector<Message>& messages, const std::string& role) {
  if (messages.empty() || messages.back().role != role) messages.push_back({.role = role});
  return messages.back();
}

const Json* Tool::parameters() const {
  const auto function = declaration.find("function");
  if (function == declaration.end() || !function->is_object()) return nullptr;
  const auto found = function->find("parameters");
  return found != function->end() && found->is_object() ? &*found : nullptr;
}

}  // namespace billow::api
