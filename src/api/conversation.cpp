#include "api/conversation.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/tool_fields.h"
#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "http/status.h"
#include "output/harmony.h"
#include "prompt/go_messages.h"

namespace billow::api {
namespace {

using http::StatusError;

std::string text_of(const tokenizer::Tokenizer& tokenizer, int32_t token) {
  return tokenizer.has(token) ? utf8::sanitized(tokenizer.text(token)) : std::string();
}

bool drops_old_thinking(const ServedModel& model) {
  return model.stored.details.family.starts_with("qwen3") ||
         model.name.find("deepseek-r1") != std::string::npos;
}

// Removes thinking before the last question; it does not help the next answer.
void drop_old_thinking(std::vector<Message>& messages) {
  constexpr std::string_view kOpen = "<think>";
  constexpr std::string_view kClose = "</think>";
  const auto last_question =
      std::find_if(messages.rbegin(), messages.rend(),
                   [](const Message& message) { return message.role == "user"; });
  for (auto at = messages.begin(); at != last_question.base(); ++at) {
    if (at->role != "assistant") continue;
    for (Part& part : at->parts) {
      auto* text = std::get_if<TextPart>(&part);
      if (text == nullptr) continue;
      const size_t open = text->text.find(kOpen);
      const size_t close = text->text.find(kClose);
      if (open == std::string::npos || close == std::string::npos || close < open) continue;
      text->text = text->text.substr(0, open) +
                   std::string(trimmed(text->text.substr(close + kClose.size())));
    }
  }
}

// A rendering is cut after the text that the model continues, because templates close a turn. This
// mark in the message shows the place: the text alone can occur later, in the closing marker.
constexpr std::string_view kMark = "[the model continues here]";

// What the model continues: the last message, if that is its own and calls no tool.
enum class Continued : uint8_t { kNothing, kText, kThinking };

bool is_answer(const Message& message) {
  return message.role == "assistant" && message.tool_calls().empty();
}

Continued continued_part(const Message& message) {
  if (!is_answer(message)) return Continued::kNothing;
  if (!trimmed(message.text()).empty()) return Continued::kText;
  return trimmed(message.thinking()).empty() ? Continued::kNothing : Continued::kThinking;
}

// Cuts a rendering at the mark. Returns false if the template does not show the marked text.
bool cut_at_mark(std::string& text) {
  const size_t at = text.rfind(kMark);
  if (at == std::string::npos) return false;
  text.resize(at);
  return true;
}

// Templates remove blanks at the end of a message, and most models cannot continue after them.
std::string marked(std::string_view text) {
  const size_t end = text.find_last_not_of(kBlanks) + 1;
  return std::string(text.substr(0, end)) + std::string(kMark);
}

// Converts a message to the form that Jinja templates expect.
Json jinja_message(const ServedModel& model, const Message& message, Continued continued) {
  std::string text = utf8::sanitized(message.text());
  std::string thinking = utf8::sanitized(message.thinking());
  if (continued == Continued::kText) text = marked(text);
  if (continued == Continued::kThinking) thinking = marked(thinking);
  Json json = {{"role", message.role}, {"content", std::move(text)}};
  if (!thinking.empty() && output::is_harmony(model.format)) {
    // The template of gpt-oss refuses a text next to the thinking before a call.
    json["thinking"] = thinking;
    if (!message.tool_calls().empty()) json.erase("content");
  }
  if (!thinking.empty()) json["reasoning_content"] = std::move(thinking);
  if (!message.tool_name.empty()) json["name"] = message.tool_name;
  if (!message.tool_call_id.empty()) json["tool_call_id"] = message.tool_call_id;
  for (const ToolCall* call : message.tool_calls()) {
    Json one = {{"type", "function"},
                {"function",
                 {{"name", call->name},
                  {"arguments", model.rules.has_text_arguments ? Json(call->arguments.dump())
                                                               : call->arguments}}}};
    if (!call->id.empty()) one["id"] = call->id;
    json["tool_calls"].push_back(std::move(one));
  }
  if (model.rules.has_null_contents && json.contains("tool_calls")) json["content"] = nullptr;
  return json;
}

std::string render_jinja(const ServedModel& model, const Conversation& conversation,
                         std::span<const size_t> kept, Continued continued) {
  const tokenizer::Tokenizer& tokenizer = model.weights->tokenizer;
  Json messages = Json::array();
  for (const size_t i : kept)
    messages.push_back(jinja_message(model, conversation.messages[i],
                                     i == kept.back() ? continued : Continued::kNothing));
  Json input = {{"messages", std::move(messages)},
                {"add_generation_prompt", continued == Continued::kNothing},
                {"enable_thinking", conversation.think.enabled.value_or(false)},
                {"bos_token", text_of(tokenizer, tokenizer.bos())},
                {"eos_token", text_of(tokenizer, tokenizer.eos())}};
  add_tools(model.rules, conversation.tools, input);
  // Models that cannot think do not get `thinking`: some templates only ask for a style with it.
  if (conversation.think.enabled) input["thinking"] = *conversation.think.enabled;
  std::string effort = conversation.think.level;
  if (effort == "max" && output::is_harmony(model.format)) effort = "high";
  if (!effort.empty()) input["reasoning_effort"] = std::move(effort);
  return model.weights->jinja->render(input);
}

std::string render_go(const Conversation& conversation, std::span<const size_t> kept,
                      const prompt::GoTemplate& go, Continued continued) {
  prompt::GoInput input;
  std::vector<Json> calls;
  calls.reserve(kept.size());  // messages point to its elements
  for (const size_t i : kept) {
    const Message& message = conversation.messages[i];
    const Json& own = calls.emplace_back(tool_calls_json(message.tool_calls()));
    const Continued here = i == kept.back() ? continued : Continued::kNothing;
    const auto with_mark = [here](std::string text, Continued part) {
      return here == part ? std::move(text) + std::string(kMark) : std::move(text);
    };
    input.messages.push_back({.role = message.role,
                              .content = with_mark(message.text(), Continued::kText),
                              .thinking = with_mark(message.thinking(), Continued::kThinking),
                              .n_images = message.n_images(),
                              .tool_calls = own.empty() ? nullptr : &own,
                              .tool_name = message.tool_name,
                              .tool_call_id = message.tool_call_id});
  }
  if (conversation.tools.is_array()) input.tools = &conversation.tools;
  input.think = conversation.think.enabled;
  input.think_level = conversation.think.level;
  return render(go, input);
}

// Returns the messages of the request. OpenAI's role "developer" becomes "system", unless the
// template knows the role: templates ignore messages of unknown roles, or fail.
std::vector<Message> given_messages(const ServedModel& model, const GenerationRequest& request) {
  std::vector<Message> messages = request.messages;
  if (model.rules.has_developer_role) return messages;
  for (Message& message : messages)
    if (message.role == "developer") message.role = "system";
  return messages;
}

Message message_of(const store::Message& stored) {
  Message message{.role = stored.role};
  if (!stored.thinking.empty()) message.parts.push_back(ThinkingPart{stored.thinking});
  for (const std::string& image : stored.images) message.parts.push_back(ImagePart{image});
  if (!stored.content.empty()) message.parts.push_back(TextPart{stored.content});
  return message;
}

std::vector<Message> messages_of(const ServedModel& model, const GenerationRequest& request) {
  std::vector<Message> messages;
  std::vector<Message> given = given_messages(model, request);
  const bool is_prompt = request.kind == GenerationKind::kPrompt;
  const bool has_system = is_prompt ? request.system.has_value()
                                    : !given.empty() && (given.front().role == "system" ||
                                                         given.front().role == "developer");
  // A system message at the start of the request comes before the messages of the model.
  auto rest = given.begin();
  if (has_system && is_prompt && !request.system->empty())
    messages.push_back(text_message("system", *request.system));
  if (has_system && !is_prompt) messages.push_back(std::move(*rest++));
  if (!has_system && !model.stored.system.empty())
    messages.push_back(text_message("system", model.stored.system));
  if (!is_prompt || request.context.empty())
    for (const store::Message& message : model.stored.messages)
      messages.push_back(message_of(message));
  if (is_prompt) {
    Message& question = messages.emplace_back(Message{.role = "user"});
    for (const std::string& image : request.images) question.parts.push_back(ImagePart{image});
    if (!request.prompt.empty()) question.parts.push_back(TextPart{request.prompt});
  } else {
    std::move(rest, given.end(), std::back_inserter(messages));
  }
  return messages;
}

// Replaces tool names with names that the model may write, in declarations, calls and results. The
// parser of the answer restores the original names.
void use_names_of_harmony(const std::vector<Tool>& tools, Conversation& conversation) {
  std::vector<std::string> own;
  const auto add = [&own](const std::string& name) {
    if (!name.empty() && std::ranges::find(own, name) == own.end()) own.push_back(name);
  };
  for (const Tool& tool : tools) add(tool.name);
  for (const Message& message : conversation.messages) {
    for (const ToolCall* call : message.tool_calls()) add(call->name);
    add(message.tool_name);
  }
  const std::vector<std::string> known = output::harmony_names(own);
  const auto rename = [&](std::string& name) {
    if (!name.empty())
      name = known[static_cast<size_t>(std::ranges::find(own, name) - own.begin())];
  };
  for (Message& message : conversation.messages) {
    for (Part& part : message.parts)
      if (auto* call = std::get_if<ToolCall>(&part)) rename(call->name);
    rename(message.tool_name);
  }
  if (!conversation.tools.is_array()) return;
  for (size_t i = 0; i < tools.size(); ++i) {
    std::string name = tools[i].name;
    rename(name);
    conversation.tools[i]["function"]["name"] = std::move(name);
  }
}

}  // namespace

Conversation conversation_of(const ServedModel& model, const GenerationRequest& request) {
  const std::optional<ModelPictures>& pictures = model.weights->pictures;
  Conversation conversation{.messages = messages_of(model, request),
                            .tools = nullptr,
                            .think = request.think,
                            .images = PromptImages(pictures ? &*pictures : nullptr)};
  fit_messages(model.rules, conversation.messages);
  for (Message& message : conversation.messages) conversation.images.add(message);
  if (request.tool_choice.use != ToolUse::kNone)
    conversation.tools = declarations_of(request.tools);
  if (!model.can("thinking"))
    conversation.think = {};
  else if (!conversation.think.enabled)
    conversation.think.enabled = true;
  if (drops_old_thinking(model)) drop_old_thinking(conversation.messages);
  if (output::is_harmony(model.format)) use_names_of_harmony(request.tools, conversation);
  return conversation;
}

std::optional<prompt::GoTemplate> own_template(const GenerationRequest& request) {
  if (!request.template_text || request.template_text->empty()) return std::nullopt;
  try {
    return prompt::GoTemplate(*request.template_text);
  } catch (const Error& error) {
    throw StatusError(500, error.what());
  }
}

const prompt::GoTemplate* go_template_of(const ServedModel& model) {
  static const prompt::GoTemplate as_it_is{std::string(store::kNoTemplate)};
  using Source = store::PromptTraits::Source;
  if (model.template_source == Source::kFile) return nullptr;
  return model.template_source == Source::kModel ? &*model.go : &as_it_is;
}

Rendering render_conversation(const ServedModel& model, const Conversation& conversation,
                              std::span<const size_t> kept, const prompt::GoTemplate* go) {
  const Message* last = kept.empty() ? nullptr : &conversation.messages[kept.back()];
  Continued continued = last == nullptr ? Continued::kNothing : continued_part(*last);
  const auto render = [&] {
    return go ? render_go(conversation, kept, *go, continued)
              : render_jinja(model, conversation, kept, continued);
  };
  const auto leave_out_last = [&] {
    kept = kept.first(kept.size() - 1);
    continued = Continued::kNothing;
  };
  // The model begins its turn after an empty answer, as after a question.
  if (last != nullptr && is_answer(*last) && continued == Continued::kNothing) leave_out_last();
  std::string text = render();
  if (continued == Continued::kNothing) return {std::move(text)};
  if (cut_at_mark(text)) return {std::move(text), continued == Continued::kThinking};
  if (continued == Continued::kThinking) {  // the template shows no thinking
    leave_out_last();
    return {render()};
  }
  if (go) return {std::move(text)};
  throw StatusError(400,
                    "the chat template of this model does not show a final assistant message, so "
                    "the model cannot continue it; end with another message");
}

std::string render_fill(const GenerationRequest& request, const prompt::GoTemplate* go) {
  if (!go) throw StatusError(400, request.model + " does not support insert");
  prompt::GoInput input;
  input.prompt = request.prompt;
  input.suffix = request.suffix;
  return render(*go, input);
}

}  // namespace billow::api
