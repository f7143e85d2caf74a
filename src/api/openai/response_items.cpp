#include "api/openai/response_items.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "api/openai/chat_messages.h"
#include "api/openai/errors.h"
#include "api/openai/response_tools.h"
#include "api/random_id.h"
#include "base/json.h"
#include "base/text.h"
#include "http/status.h"

namespace billow::api::openai {
namespace {

std::string type_of(const Fields& item) {
  const std::string type = item.text("type");
  return type.empty() && item.has("role") ? "message" : type;
}

void read_part(const Fields& part, std::vector<Part>& parts) {
  const std::string type = part.text("type");
  if (type == "input_text" || type == "output_text" || type == "text") {
    parts.emplace_back(TextPart{part.text("text")});
  } else if (type == "refusal") {
    parts.emplace_back(TextPart{part.text("refusal")});
  } else if (type == "input_image") {
    if (!part.has("image_url")) refuse("an input_image must have an \"image_url\" with its data");
    parts.emplace_back(image_of_url(part.text("image_url")));
  } else {
    refuse("content of type \"" + type + "\" is not supported");
  }
}

// Parses a text, or the parts of one.
std::vector<Part> parts_of(const Fields& item, std::string_view name) {
  std::vector<Part> parts;
  const Json* value = item.value(name);
  if (value != nullptr && value->is_string())
    parts.emplace_back(TextPart{value->get<std::string>()});
  else
    for (const Fields& part : item.objects(name)) read_part(part, parts);
  return parts;
}

class Reader {
 public:
  explicit Reader(const std::string& instructions) {
    if (!instructions.empty()) messages_.push_back(text_message("system", instructions));
  }

  void read(const Fields& item);
  std::vector<Message> take() { return std::move(messages_); }

 private:
  using Read = void (Reader::*)(const Fields& item);
  struct Kind {
    std::string_view type;
    Read read;
  };

  void add(const std::string& role, std::vector<Part> parts) {
    Message& message = turn_of(messages_, role);
    std::ranges::move(parts, std::back_inserter(message.parts));
  }

  void read_message(const Fields& item) {
    std::string role = lower_case(item.text("role"));
    if (role == "developer") role = "system";
    if (role != "user" && role != "assistant" && role != "system")
      refuse("a message has the role \"" + role + "\"");
    add(role, parts_of(item, "content"));
  }

  void read_reasoning(const Fields& item) {
    std::string text;
    for (const char* name : {"content", "summary"}) {
      for (const Fields& part : item.objects(name))
        text += (text.empty() ? "" : "\n\n") + part.text("text");
      if (!text.empty()) break;
    }
    // Encrypted content of another provider cannot be read, so it is ignored.
    if (!text.empty()) add("assistant", {ThinkingPart{std::move(text)}});
  }

  void add_call(const Fields& item, std::string name, Json arguments) {
    std::string id = item.text("call_id");
    called_[id] = name;
    add("assistant",
        {ToolCall{
            .id = std::move(id), .name = std::move(name), .arguments = std::move(arguments)}});
  }
  void read_function_call(const Fields& item) {
    // Some models and clients write nothing if a function has no parameters.
    const std::string arguments = item.text("arguments");
    add_call(item, function_name(item.text("namespace"), item.text("name")),
             arguments.empty() ? Json::object() : arguments_of(arguments));
  }
  void read_custom_call(const Fields& item) {
    add_call(item, item.text("name"), custom_arguments(item.text("input")));
  }
  void read_shell_call(const Fields& item) {
    const Json* action = item.object("action");
    Json arguments = action == nullptr ? Json::object() : *action;
    arguments.erase("type");
    add_call(item, kLocalShell, std::move(arguments));
  }

  void read_output(const Fields& item) {
    std::string id = item.text("call_id");
    if (id.empty()) id = item.text("id");  // for local_shell_call_output
    Message result{.role = "tool",
                   .parts = parts_of(item, "output"),
                   .tool_name = "",
                   .tool_call_id = std::move(id)};
    if (const auto call = called_.find(result.tool_call_id); call != called_.end())
      result.tool_name = call->second;
    messages_.push_back(std::move(result));
  }

  // Ignores a call that a server has run: the model's text contains its result.
  void skip(const Fields&) {}

  std::vector<Message> messages_;
  std::map<std::string, std::string> called_;  // tool names by call id
};

void Reader::read(const Fields& item) {
  static constexpr std::array<Kind, 9> kKinds{{
      {"message", &Reader::read_message},
      {"reasoning", &Reader::read_reasoning},
      {"function_call", &Reader::read_function_call},
      {"function_call_output", &Reader::read_output},
      {"custom_tool_call", &Reader::read_custom_call},
      {"custom_tool_call_output", &Reader::read_output},
      {"local_shell_call", &Reader::read_shell_call},
      {"local_shell_call_output", &Reader::read_output},
      {"web_search_call", &Reader::skip},
  }};
  const std::string type = type_of(item);
  const auto* kind = std::ranges::find(kKinds, type, &Kind::type);
  if (kind == kKinds.end()) refuse("items of type \"" + type + "\" are not supported");
  (this->*kind->read)(item);
}

constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kPrefixes{{
    {"message", "msg_"},
    {"reasoning", "rs_"},
    {"function_call", "fc_"},
    {"custom_tool_call", "ctc_"},
}};

std::string new_item_id(const std::string& type) {
  const auto* known =
      std::ranges::find(kPrefixes, type, &std::pair<std::string_view, std::string_view>::first);
  return random_id(known == kPrefixes.end() ? "item_" : known->second, 24);
}

// Returns an item with all fields that clients may omit.
Json whole_item(const Fields& given) {
  const std::string type = type_of(given);
  if (type.empty()) refuse("item without a \"type\"");
  Json item;
  const std::string id = given.text("id");
  item["id"] = id.empty() ? new_item_id(type) : id;
  item["type"] = type;
  for (const auto& [name, value] : given.all().items())
    if (name != "id" && name != "type") item[name] = value;
  if (type == "message" && item.contains("content") && item["content"].is_string()) {
    const bool is_answer = lower_case(given.text("role")) == "assistant";
    Json part = {{"type", is_answer ? "output_text" : "input_text"}};
    part["text"] = item["content"];
    item["content"] = Json::array({std::move(part)});
  }
  return item;
}

// Runs `work` and adds the index of the item to its errors.
template <typename Work>
void at_item(size_t index, const Work& work) {
  try {
    work();
  } catch (const http::StatusError& error) {
    throw http::StatusError(error.status(),
                            "input[" + std::to_string(index) + "]: " + error.what());
  }
}

}  // namespace

Json items_of_input(const Fields& request) {
  const Json* input = request.value("input");
  Json items = Json::array();
  if (input == nullptr) return items;
  if (input->is_string()) {
    const Json message = {{"input", Json::array({{{"role", "user"}, {"content", *input}}})}};
    items.push_back(whole_item(Fields::parse(message.dump(), "Request").objects("input").at(0)));
    return items;
  }
  if (!input->is_array()) refuse("field \"input\" must be a string or an array of items");
  const std::vector<Fields> given = request.objects("input");
  for (size_t i = 0; i < given.size(); ++i)
    at_item(i, [&] { items.push_back(whole_item(given[i])); });
  return items;
}

std::vector<Message> messages_of_items(const Json& items, const std::string& instructions) {
  Reader reader(instructions);
  const Fields root = Fields::parse(Json{{"input", items}}.dump(), "ResponsesRequest");
  const std::vector<Fields> given = root.objects("input");
  for (size_t i = 0; i < given.size(); ++i) at_item(i, [&] { reader.read(given[i]); });
  return reader.take();
}

}  // namespace billow::api::openai
