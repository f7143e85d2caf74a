#include "api/anthropic/blocks.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "api/error_texts.h"
#include "api/tool_choice.h"
#include "api/tool_fields.h"
#include "base/base64.h"
#include "base/json.h"
#include "base/text.h"

namespace billow::api::anthropic {
namespace {

std::string required(const Fields& block, const char* name) {
  std::string text = block.text(name);
  if (text.empty()) refuse(block.text("type") + " block: field \"" + name + "\" is missing");
  return text;
}

// Adds the content of a block to `parts`. These block types may also be inside a tool result.
using ReadPart = void (*)(const Fields& block, std::vector<Part>& parts);

void read_text(const Fields& block, std::vector<Part>& parts) {
  parts.emplace_back(TextPart{block.text("text")});
}

void read_image(const Fields& block, std::vector<Part>& parts) {
  const auto source = block.fields("source");
  const std::string type = source ? source->text("type") : "";
  if (type == "url") {
    const std::string address = source->text("url");
    if (!address.starts_with("http://") && !address.starts_with("https://"))
      refuse("image block: field \"source.url\" is not an http or https URL");
    return void(parts.emplace_back(ImagePart{.bytes = {}, .address = address}));
  }
  if (type != "base64")
    refuse("image block: a source of type \"" + type + "\" is not supported: send it as base64");
  auto bytes = base64_decoded(source->text("data"));
  if (!bytes || bytes->empty()) refuse("image block: field \"source.data\" is not base64");
  parts.emplace_back(ImagePart{*std::move(bytes)});
}

// Answers have no citations. Refuses a block that asks for them.
void check_citations(const Fields& block) {
  const auto citations = block.fields("citations");
  if (citations && citations->flag("enabled").value_or(false))
    refuse("field \"citations.enabled\" of a block is not supported: answers have no citations");
}

void read_document(const Fields& block, std::vector<Part>& parts) {
  check_citations(block);
  const auto source = block.fields("source");
  const std::string type = source ? source->text("type") : "";
  if (type != "text")
    refuse("document block: a source of type \"" + type + "\" is not supported: send its text");
  std::string text;
  for (const char* name : {"title", "context"})
    if (block.has(name)) text += block.text(name) + "\n\n";
  parts.emplace_back(TextPart{text + source->text("data")});
}

void read_search_result(const Fields& block, std::vector<Part>& parts) {
  check_citations(block);
  std::string text = block.text("title") + "\n" + block.text("source");
  for (const Fields& one : block.objects("content")) text += "\n\n" + one.text("text");
  parts.emplace_back(TextPart{std::move(text)});
}

struct PartKind {
  std::string_view type;
  ReadPart read;
};
constexpr std::array kParts{PartKind{"text", read_text}, PartKind{"image", read_image},
                            PartKind{"document", read_document},
                            PartKind{"search_result", read_search_result}};

ReadPart find_part(std::string_view type) {
  const auto* found = std::ranges::find(kParts, type, &PartKind::type);
  return found == kParts.end() ? nullptr : found->read;
}

// Returns the blocks of a field. If the field is a text, adds it to `parts` and returns nothing.
std::vector<Fields> blocks_of(const Fields& given, std::string_view name,
                              std::vector<Part>& parts) {
  const Json* value = given.value(name);
  if (value == nullptr) return {};
  if (!value->is_string()) return given.objects(name);
  parts.emplace_back(TextPart{value->get<std::string>()});
  return {};
}

std::vector<Part> result_parts(const Fields& block) {
  std::vector<Part> parts;
  for (const Fields& one : blocks_of(block, "content", parts)) {
    const std::string type = one.text("type");
    const ReadPart read = find_part(type);
    if (read == nullptr)
      refuse("tool_result block: content of type \"" + type + "\" is not supported");
    read(one, parts);
  }
  return parts;
}

ToolCall call_of(const Fields& block) {
  ToolCall call{.id = required(block, "id"), .name = required(block, "name")};
  if (const Json* input = block.object("input")) call.arguments = *input;
  return call;
}

class Reader {
 public:
  void add_system(const Fields& request) {
    std::vector<Part> parts;
    for (const Fields& block : blocks_of(request, "system", parts)) {
      const std::string type = block.text("type");
      if (type != "text") refuse("field \"system\" has a block of type \"" + type + "\", not text");
      read_text(block, parts);
    }
    // A client's note to its provider, which differs with each request. The model must not see it,
    // and it would prevent a cached prefix.
    std::erase_if(parts, [](const Part& part) {
      return std::get<TextPart>(part).text.starts_with("x-anthropic-billing-header:");
    });
    if (!parts.empty()) messages_.push_back({.role = "system", .parts = std::move(parts)});
  }

  void add_turn(const Fields& turn) {
    const std::string role = lower_case(turn.text("role"));
    if (role != "user" && role != "assistant" && role != "system")
      refuse("field \"messages\" has the role \"" + role +
             "\"; it must be \"user\", "
             "\"assistant\" or \"system\"");
    std::vector<Part> parts;
    size_t n_results = 0;
    for (const Fields& block : blocks_of(turn, "content", parts)) {
      n_results += block.text("type") == "tool_result" ? 1 : 0;
      read(block, parts);
    }
    // A turn with only tool results is no message of the user.
    if (n_results > 0 && parts.empty()) return;
    Message& message = turn_of(messages_, role);
    std::ranges::move(parts, std::back_inserter(message.parts));
  }

  std::vector<Message> take() { return std::move(messages_); }

 private:
  void read(const Fields& block, std::vector<Part>& parts) {
    const std::string type = block.text("type");
    if (const ReadPart read_part = find_part(type)) return read_part(block, parts);
    if (type == "thinking") {
      parts.emplace_back(ThinkingPart{block.text("thinking")});
    } else if (type == "tool_use") {
      ToolCall call = call_of(block);
      called_[call.id] = call.name;
      parts.emplace_back(std::move(call));
    } else if (type == "tool_result") {
      add_result(block);
    } else if (type != "redacted_thinking") {  // encrypted for its provider
      refuse("content of type \"" + type + "\" is not supported");
    }
  }

  void add_result(const Fields& block) {
    Message result{.role = "tool",
                   .parts = result_parts(block),
                   .tool_name = "",
                   .tool_call_id = required(block, "tool_use_id")};
    if (const auto call = called_.find(result.tool_call_id); call != called_.end())
      result.tool_name = call->second;
    messages_.push_back(std::move(result));
  }

  std::vector<Message> messages_;
  std::map<std::string, std::string> called_;  // tool names by call id
};

// Returns a tool in the form that templates expect.
Json declaration_of(const Fields& tool) {
  const std::string type = tool.text("type");
  const std::string name = tool.text("name");
  if (!type.empty() && type != "custom")
    refuse("field \"tools\" has a tool of type \"" + type +
           "\", which is not supported: declare it with \"input_schema\"");
  if (name.empty()) refuse("field \"tools\" has a tool without a name");
  Json function = {{"name", name}};
  if (tool.has("description")) function["description"] = tool.text("description");
  if (const Json* schema = tool.object("input_schema")) function["parameters"] = *schema;
  if (tool.flag("strict").value_or(false)) function["strict"] = true;
  return {{"type", "function"}, {"function", std::move(function)}};
}

struct ChoiceType {
  std::string_view type;
  const char* openai;
};
constexpr std::array kChoices{ChoiceType{"auto", "auto"}, ChoiceType{"any", "required"},
                              ChoiceType{"none", "none"}};

}  // namespace

std::vector<Message> decode_messages(const Fields& request) {
  Reader reader;
  reader.add_system(request);
  const std::vector<Fields> turns = request.objects("messages");
  if (turns.empty()) refuse("messages is required");
  for (const Fields& turn : turns) reader.add_turn(turn);
  return reader.take();
}

std::vector<Tool> decode_tools(const Fields& request) {
  Json list = Json::array();
  for (const Fields& tool : request.objects("tools")) list.push_back(declaration_of(tool));
  if (list.empty()) return {};
  return tools_of(Fields::parse(Json{{"tools", std::move(list)}}.dump(), "MessagesRequest"));
}

ToolChoice decode_tool_choice(const Fields& request, const std::vector<Tool>& tools) {
  const auto given = request.fields("tool_choice");
  if (!given) return {};
  const std::string type = given->text("type");
  Json choice;
  choice["parallel_tool_calls"] = !given->flag("disable_parallel_tool_use").value_or(false);
  const auto* known = std::ranges::find(kChoices, type, &ChoiceType::type);
  if (known != kChoices.end())
    choice["tool_choice"] = known->openai;
  else if (type == "tool")
    choice["tool_choice"]["name"] = given->text("name");
  else
    refuse("field \"tool_choice.type\" must be \"auto\", \"any\", \"tool\" or \"none\", not \"" +
           type + "\"");
  return tool_choice_of(Fields::parse(choice.dump(), "MessagesRequest"), tools);
}

}  // namespace billow::api::anthropic
