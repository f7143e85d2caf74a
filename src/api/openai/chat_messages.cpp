#include "api/openai/chat_messages.h"

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "api/json_reader.h"
#include "api/openai/errors.h"
#include "base/base64.h"
#include "base/json.h"
#include "base/text.h"
#include "http/status.h"

namespace billow::api::openai {
namespace {

// Returns the text of a member, or throws.
const std::string& text_of(const Json& object, const char* key, const char* refusal) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_string()) refuse(refusal);
  return at->get_ref<const std::string&>();
}

constexpr const char* kBadPart = "invalid message format";

ImagePart image_of(const Json& part) {
  const auto image = part.find("image_url");
  if (image == part.end()) refuse(kBadPart);
  if (image->is_string()) return image_of_url(image->get_ref<const std::string&>());
  if (!image->is_object()) refuse(kBadPart);
  return image_of_url(text_of(*image, "url", kBadPart));
}

// Ollama makes a message of each part. Its Go templates merge adjacent messages of one role again,
// with an empty line between the texts. Here, the parts stay in one message. Other kinds of
// templates may refuse two messages of one role, or two results of one call.
Part part_of(const Json& part) {
  if (!part.is_object()) refuse(kBadPart);
  const std::string& type = text_of(part, "type", kBadPart);
  if (type == "text") return TextPart{text_of(part, "text", kBadPart)};
  if (type == "refusal") return TextPart{text_of(part, "refusal", kBadPart)};
  if (type == "image_url") return image_of(part);
  if (type == "input_audio")
    refuse("input_audio is not supported: no model here accepts audio; send the spoken text");
  refuse(kBadPart);
}

// Names of the tools called so far, by call id.
using CalledTools = std::map<std::string, std::string>;

ToolCall tool_call_of(const Fields& function, std::string id) {
  return {.id = std::move(id),
          .name = function.text("name"),
          .arguments = arguments_of(function.text("arguments"))};
}

void add_tool_calls(Message& message, const Fields& given, CalledTools& called) {
  for (const Fields& call : given.objects("tool_calls")) {
    const auto function = call.fields("function");
    const std::string id = call.text("id");
    if (!function) refuse("invalid tool call arguments");
    ToolCall made = tool_call_of(*function, id);
    if (!id.empty()) called[id] = made.name;
    message.parts.emplace_back(std::move(made));
  }
  if (const auto function = given.fields("function_call"))
    message.parts.emplace_back(tool_call_of(*function, ""));
}

// An assistant message can have no content: it refused, only thought, or only called tools.
void add_content(Message& message, const Fields& given) {
  const Json* content = given.value("content");
  if (content != nullptr && content->is_string()) {
    message.parts.emplace_back(TextPart{content->get<std::string>()});
  } else if (content != nullptr && content->is_array()) {
    for (const Json& part : *content) message.parts.push_back(part_of(part));
  } else if (content == nullptr && message.role == "assistant") {
    std::string refusal = given.text("refusal");
    if (!refusal.empty()) message.parts.emplace_back(TextPart{std::move(refusal)});
  } else if (!given.has("tool_calls") && !given.has("function_call")) {
    refuse("invalid message content type: " + std::string(go_type(content)));
  }
}

std::string thinking_of(const Fields& given) {
  for (const char* name : {"reasoning", "reasoning_content"}) {
    std::string text = given.text(name);
    if (!text.empty()) return text;
  }
  return "";
}

}  // namespace

ImagePart image_of_url(std::string_view url) {
  if (url.starts_with("http://") || url.starts_with("https://"))
    return {.bytes = {}, .address = std::string(url)};
  for (const std::string_view head :
       {"data:;base64,", "data:image/jpeg;base64,", "data:image/jpg;base64,",
        "data:image/png;base64,", "data:image/webp;base64,", "data:image/gif;base64,",
        "data:image/bmp;base64,"}) {
    if (!url.starts_with(head)) continue;
    if (auto bytes = base64_decoded(url.substr(head.size()))) return {.bytes = *std::move(bytes)};
  }
  refuse("invalid image input");
}

Json arguments_of(const std::string& text) {
  if (trimmed(text).empty()) return Json::object();
  std::optional<Json> value = read_inner_json(text);
  if (value && value->is_null()) return Json::object();
  if (!value || !value->is_object()) return {{"INVALID_JSON", text}};
  return *std::move(value);
}

std::vector<Message> decode_messages(const Fields& fields) {
  std::vector<Message> messages;
  CalledTools called;
  for (const Fields& given : fields.objects("messages")) {
    Message& message = messages.emplace_back(Message{.role = lower_case(given.text("role"))});
    message.tool_call_id = given.text("tool_call_id");
    // A result of a "function_call" has this role, and only a name.
    if (message.role == "function") message.role = "tool";
    if (message.role == "tool") {
      message.tool_name = given.text("name");
      const auto call = called.find(message.tool_call_id);
      if (message.tool_name.empty() && call != called.end()) message.tool_name = call->second;
    }
    std::string thinking = thinking_of(given);
    if (!thinking.empty()) message.parts.emplace_back(ThinkingPart{std::move(thinking)});
    add_content(message, given);
    add_tool_calls(message, given, called);
  }
  if (messages.empty()) refuse("[] is too short - 'messages'");
  return messages;
}

}  // namespace billow::api::openai
