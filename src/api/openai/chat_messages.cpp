#include "api/openai/chat_messages.h"

#include <cstddef>
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
#include "store/json_text.h"

namespace billow::api::openai {
namespace {

// The text of a member, or refuses.
const std::string& text_of(const Json& object, const char* key, const char* refusal) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_string()) refuse(refusal);
  return at->get_ref<const std::string&>();
}

constexpr const char* kBadPart = "invalid message format";

std::string image_of_url(std::string_view url) {
  if (url.starts_with("http://") || url.starts_with("https://")) {
    refuse("image URLs are not currently supported, please use base64 encoded data instead");
  }
  for (const std::string_view head :
       {"data:;base64,", "data:image/jpeg;base64,", "data:image/jpg;base64,",
        "data:image/png;base64,", "data:image/webp;base64,"}) {
    if (!url.starts_with(head)) continue;
    if (auto bytes = base64_decoded(url.substr(head.size()))) return *std::move(bytes);
  }
  refuse("invalid image input");
}

std::string image_of(const Json& part) {
  const auto image = part.find("image_url");
  if (image == part.end()) refuse(kBadPart);
  if (image->is_string()) return image_of_url(image->get_ref<const std::string&>());
  if (!image->is_object()) refuse(kBadPart);
  return image_of_url(text_of(*image, "url", kBadPart));
}

std::string audio_of(const Json& part) {
  const auto audio = part.find("input_audio");
  if (audio == part.end() || !audio->is_object()) refuse("invalid input_audio format");
  const std::string& data = text_of(*audio, "data", "invalid input_audio format: missing data");
  size_t fault = 0;
  auto bytes = base64_decoded(data, &fault);
  if (!bytes) {
    refuse("invalid input_audio base64 data: illegal base64 data at input byte " +
           std::to_string(fault));
  }
  return *std::move(bytes);
}

// Ollama makes a message of each part, and its Go templates see neighbours of one role as one
// message again, with an empty line between the texts. Here parts are one message in that form from
// the beginning: templates of other kinds may refuse two messages of one role, and two results of
// one call.
void add_part(Message& message, const Json& part) {
  if (!part.is_object()) refuse(kBadPart);
  const std::string& type = text_of(part, "type", kBadPart);
  if (type == "text") {
    const std::string& text = text_of(part, "text", kBadPart);
    if (!message.content.empty() && !text.empty()) message.content += "\n\n";
    message.content += text;
  } else if (type == "image_url") {
    message.images.push_back(image_of(part));
  } else if (type == "input_audio") {
    message.images.push_back(audio_of(part));
  } else {
    refuse(kBadPart);
  }
}

// Names of the tools that were called so far, by the ids of the calls.
using CalledTools = std::map<std::string, std::string>;

// The arguments that a text holds, null as none.
Json arguments_of(const std::string& text) {
  constexpr const char* kRefusal = "invalid tool call arguments";
  Json values;
  try {
    values = read_json("[" + text + "]");  // in brackets, as nothing may follow them
  } catch (const http::StatusError&) {
    refuse(kRefusal);
  }
  if (values.size() != 1) refuse(kRefusal);
  if (values[0].is_null()) return Json::object();
  if (!values[0].is_object()) refuse(kRefusal);
  return std::move(values[0]);
}

std::string native_tool_calls(const Fields& message, CalledTools& called) {
  Json calls = Json::array();
  for (const Fields& call : message.objects("tool_calls")) {
    const std::string id = call.text("id");
    const auto given = call.fields("function");
    const std::string name = given ? given->text("name") : "";
    Json native;
    if (!id.empty()) native["id"] = id;
    Json& function = native["function"];
    function["index"] = calls.size();
    function["name"] = name;
    function["arguments"] = arguments_of(given ? given->text("arguments") : "");
    calls.push_back(std::move(native));
    if (!id.empty()) called[id] = name;
  }
  return calls.empty() ? "" : store::compact(calls);
}

void add_content(Message& message, const Fields& given) {
  const Json* content = given.value("content");
  if (content != nullptr && content->is_string()) {
    message.content = content->get<std::string>();
  } else if (content != nullptr && content->is_array()) {
    for (const Json& part : *content) add_part(message, part);
  } else if (!given.has("tool_calls")) {
    refuse("invalid message content type: " + std::string(go_type(content)));
  }
}

}  // namespace

std::vector<Message> decode_messages(const Fields& fields) {
  std::vector<Message> messages;
  CalledTools called;
  for (const Fields& given : fields.objects("messages")) {
    Message& message = messages.emplace_back(Message{.role = lower_case(given.text("role"))});
    message.tool_call_id = given.text("tool_call_id");
    if (message.role == "tool") {
      message.tool_name = given.text("name");
      const auto call = called.find(message.tool_call_id);
      if (message.tool_name.empty() && call != called.end()) message.tool_name = call->second;
    }
    add_content(message, given);
    message.thinking = given.text("reasoning");
    message.tool_calls_json = native_tool_calls(given, called);
  }
  if (messages.empty()) refuse("[] is too short - 'messages'");
  return messages;
}

}  // namespace billow::api::openai
