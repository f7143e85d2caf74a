#include "api/prompt_builder.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "api/conversation.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "context/truncation.h"
#include "http/status.h"
#include "prompt/named_templates.h"

namespace billow::api {
namespace {

using http::StatusError;

// Room that is kept for the answer where a prompt has to be shortened.
constexpr size_t kAnswerRoom = 1024;

size_t shortened_limit(const PromptLimits& limits) {
  const size_t wanted =
      limits.num_predict > 0 ? static_cast<size_t>(limits.num_predict) : kAnswerRoom;
  return limits.max_context - std::min(wanted, limits.max_context / 4);
}

bool fits(size_t n_prompt, const PromptLimits& limits) {
  const size_t n_answer = limits.num_predict == 0 ? 0 : 1;
  return n_prompt + n_answer <= limits.max_context;
}

[[noreturn]] void refuse_length(size_t n_prompt, const PromptLimits& limits) {
  throw StatusError(400,
                    "the prompt is longer than the context length currently available to the "
                    "model: it has " +
                        std::to_string(n_prompt) + " tokens, the context " +
                        std::to_string(limits.max_context) +
                        "; shorten the prompt, adjust the context length in settings, or use a "
                        "model with a longer context length");
}

// A prompt's text as tokens: behind earlier tokens, or with what the model begins texts with.
std::vector<int32_t> tokens_of(const ServedModel& model, const std::string& text,
                               const std::vector<int32_t>& before = {}) {
  const tokenizer::Tokenizer& tokenizer = model.weights->tokenizer;
  const std::string bos =
      tokenizer.has(tokenizer.bos()) ? std::string(tokenizer.text(tokenizer.bos())) : "";
  // Many templates write the BOS themselves; a second one makes answers worse.
  const bool has_bos = !bos.empty() && text.starts_with(bos);
  const std::string_view rest =
      !before.empty() && has_bos ? std::string_view(text).substr(bos.size()) : text;
  std::vector<int32_t> tokens = before;
  const std::vector<int32_t> own =
      tokenizer.encode(rest, {.add_special = before.empty() && !has_bos, .parse_special = true});
  tokens.insert(tokens.end(), own.begin(), own.end());
  return tokens;
}

void check_tokens(const ServedModel& model, const std::vector<int32_t>& tokens) {
  for (const int32_t token : tokens)
    if (!model.weights->tokenizer.has(token))
      throw StatusError(
          400, "context has the id " + std::to_string(token) + ", which is no token of the model");
}

// The text in which thinking is to be looked for, and calls of tools.
AnswerShape shape_of(const ServedModel& model, const Conversation& conversation,
                     const prompt::GoTemplate* go, const std::string& text) {
  AnswerShape shape;
  const bool thinks = conversation.think.enabled.value_or(false);
  if (thinks && go) shape.thinking = prompt::infer_thinking_tags(*go);
  if (thinks && !go && model.template_kind == prompt::TemplateKind::kJinja)
    shape.thinking = prompt::ThinkingTags{"<think>", "</think>"};
  if (shape.thinking) shape.begins_in_thinking = ends_in_thinking(text, *shape.thinking);
  if (conversation.tools.is_array()) {
    for (const Json& tool : conversation.tools)
      if (tool.is_object() && tool.contains("function") && tool["function"].is_object())
        shape.tools.push_back(tool["function"].value("name", std::string()));
    shape.tool_tag = go ? prompt::infer_tool_tag(*go)
                        : tool_tag_of_jinja(model.stored.weights_facts->chat_template);
  }
  return shape;
}

// Leaves out whole messages, from the oldest on, until the rest fits.
void shorten(BuiltPrompt& built, const ServedModel& model, const Conversation& conversation,
             const prompt::GoTemplate* go, const PromptLimits& limits) {
  std::vector<context::ChatMessage> messages;
  for (const Message& message : conversation.messages)
    messages.push_back({message.role == "system", message.role != "user"});
  const auto render = [&](std::span<const size_t> kept) {
    Conversation part = conversation;
    part.messages.clear();
    for (const size_t i : kept) part.messages.push_back(conversation.messages[i]);
    built.text = render_conversation(model, part, go);
    built.tokens = tokens_of(model, built.text);
    return built.tokens.size();
  };
  try {
    const auto kept = context::fitting_messages(messages, shortened_limit(limits), render);
    built.n_left_out = messages.size() - kept.size();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kTooLarge) throw;
    // Without the room that was to be kept for the answer, perhaps.
    if (!fits(built.tokens.size(), limits)) refuse_length(built.tokens.size(), limits);
    built.n_left_out = 1;
  }
  log::warn(model.name + ": the oldest messages were left out: the prompt had " +
            std::to_string(built.n_full) + " tokens, now " + std::to_string(built.tokens.size()) +
            ", of a context of " + std::to_string(limits.max_context));
}

}  // namespace

bool asks_nothing(const GenerationRequest& request) {
  return request.kind == GenerationKind::kChat
             ? request.messages.empty()
             : request.prompt.empty() && request.suffix.empty() && !request.raw;
}

void check_capabilities(const ServedModel& model, const GenerationRequest& request) {
  const bool is_chat = request.kind == GenerationKind::kChat;
  if (!model.can("completion")) {
    throw StatusError(
        400, "\"" + request.model + "\" does not support " + (is_chat ? "chat" : "generate"));
  }
  const bool wants_thinking = request.think.enabled.value_or(false);
  if (wants_thinking && !model.can("thinking"))
    throw StatusError(400, "\"" + request.model + "\" does not support thinking");
  std::string lacking;
  const auto want = [&](bool wanted, const char* capability) {
    if (!wanted || model.can(capability)) return;
    if (!lacking.empty()) lacking += "\n";
    lacking += model.full_name + " does not support " + capability;
  };
  const bool has_images =
      !request.images.empty() ||
      std::ranges::any_of(request.messages, [](const Message& m) { return !m.images.empty(); });
  want(!request.tools_json.empty() && request.tools_json != "[]", "tools");
  want(!request.suffix.empty(), "insert");
  want(has_images, "vision");
  if (!lacking.empty()) throw StatusError(400, lacking);
  if (has_images)
    throw StatusError(501, "images are not supported yet: " + model.name + " runs on text alone");
}

BuiltPrompt build_prompt(const ServedModel& model, const GenerationRequest& request,
                         const PromptLimits& limits) {
  BuiltPrompt built;
  const bool is_prompt = request.kind == GenerationKind::kPrompt;
  check_tokens(model, request.context);
  if (is_prompt && request.raw) {
    built.text = request.prompt;
    built.tokens = tokens_of(model, built.text);
    built.n_full = built.tokens.size();
    if (!fits(built.n_full, limits)) refuse_length(built.n_full, limits);
    return built;
  }
  std::optional<prompt::GoTemplate> own = own_template(request);
  const Conversation conversation = conversation_of(model, request);
  const prompt::GoTemplate* go = own ? &*own : go_template_of(model, request.kind);
  built.text = is_prompt && !request.suffix.empty() ? render_fill(request, go)
                                                    : render_conversation(model, conversation, go);
  built.tokens = tokens_of(model, built.text, request.context);
  built.n_full = built.tokens.size();
  if (!fits(built.n_full, limits)) {
    const bool may_shorten = request.truncate && request.shift.value_or(true) &&
                             request.context.empty() && request.suffix.empty();
    if (!may_shorten) refuse_length(built.n_full, limits);
    shorten(built, model, conversation, go, limits);
  }
  built.shape = shape_of(model, conversation, go, built.text);
  return built;
}

}  // namespace billow::api
