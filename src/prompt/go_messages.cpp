#include "prompt/go_messages.h"

#include <string_view>
#include <utility>

#include "base/json.h"
#include "prompt/go/value.h"
#include "prompt/go_tools.h"

namespace billow::prompt {
namespace {

using go::Value;
using Entries = std::vector<std::pair<std::string, Value>>;

GoMessage message(std::string role, std::string content) {
  GoMessage result;
  result.role = std::move(role);
  result.content = std::move(content);
  return result;
}

// Returns the system text of `input` (unless its messages have one), its messages and its prompt.
std::vector<GoMessage> all_messages(const GoInput& input) {
  std::vector<GoMessage> messages;
  const bool has_system = !input.messages.empty() && input.messages.front().role == "system";
  if (!input.system.empty() && !has_system) {
    messages.push_back(message("system", input.system));
  }
  messages.insert(messages.end(), input.messages.begin(), input.messages.end());
  if (!input.prompt.empty()) messages.push_back(message("user", input.prompt));
  return messages;
}

void join(std::string& text, std::string_view more) {
  if (!text.empty() && !more.empty()) text += "\n\n";
  text += more;
}

// Merges adjacent messages of one role. Results of tools, and two messages with tool calls, stay
// separate.
std::vector<GoMessage> merged(std::vector<GoMessage> messages) {
  std::vector<GoMessage> result;
  for (GoMessage& next : messages) {
    const bool is_merged = !result.empty() && next.role != "tool" &&
                           result.back().role == next.role &&
                           !(result.back().tool_calls && next.tool_calls);
    if (!is_merged) {
      result.push_back(std::move(next));
      continue;
    }
    GoMessage& last = result.back();
    join(last.content, next.content);
    join(last.thinking, next.thinking);
    last.n_images += next.n_images;
    if (next.tool_calls) last.tool_calls = next.tool_calls;
  }
  return result;
}

std::string system_text(const std::vector<GoMessage>& messages) {
  std::string text;
  for (const GoMessage& message : messages) {
    if (message.role == "system") join(text, message.content);
  }
  return text;
}

Value message_value(const GoMessage& message) {
  const Json none;
  std::vector<Value> images(message.n_images, Value::list({}));
  return Value::record({{{"Role", "role"}, Value::text(message.role)},
                        {{"Content", "content"}, Value::text(message.content)},
                        {{"Thinking", "thinking", true}, Value::text(message.thinking)},
                        {{"Images", "images", true}, Value::list(std::move(images))},
                        {{"ToolCalls", "tool_calls", true},
                         go_tool_calls(message.tool_calls ? *message.tool_calls : none)},
                        {{"ToolName", "tool_name", true}, Value::text(message.tool_name)},
                        {{"ToolCallID", "tool_call_id", true}, Value::text(message.tool_call_id)}});
}

// Returns the variables that every style of template sees.
Entries shared_entries(const GoInput& input, std::string response) {
  return {{"Response", Value::text(std::move(response))},
          {"Think", Value::boolean(input.think.value_or(false))},
          {"ThinkLevel", Value::text(input.think_level)},
          {"IsThinkSet", Value::boolean(input.think.has_value())}};
}

std::string render_messages(const GoTemplate& source, const GoInput& input,
                            const std::vector<GoMessage>& messages) {
  const Json none;
  std::vector<Value> values;
  values.reserve(messages.size());
  for (const GoMessage& message : messages) values.push_back(message_value(message));
  Entries entries = shared_entries(input, "");
  entries.emplace_back("System", Value::text(system_text(messages)));
  entries.emplace_back("Messages", Value::list(std::move(values)));
  entries.emplace_back("Tools", go_tools(input.tools ? *input.tools : none));
  return source.render(Value::map(std::move(entries)), GoPart::kAll, input.now);
}

std::string render_fill(const GoTemplate& source, const GoInput& input) {
  Entries entries = shared_entries(input, "");
  entries.emplace_back("Prompt", Value::text(input.prompt));
  entries.emplace_back("Suffix", Value::text(input.suffix));
  return source.render(Value::map(std::move(entries)), GoPart::kToResponse, input.now);
}

// One turn of a conversation, as legacy templates see it.
struct Turn {
  std::string system;
  std::string prompt;
  std::string response;
};

class LegacyRendering {
 public:
  LegacyRendering(const GoTemplate& source, const GoInput& input)
      : source_(source), input_(input) {}

  std::string run(const std::vector<GoMessage>& messages) {
    for (const GoMessage& message : messages) {
      if (message.role == "system") {
        if (!turn_.prompt.empty() || !turn_.response.empty()) close();
        turn_.system = message.content;
      } else if (message.role == "user") {
        if (!turn_.response.empty()) close();
        turn_.prompt = message.content;
      } else if (message.role == "assistant") {
        turn_.response = message.content;
      }
    }
    append(GoPart::kToResponse);
    return std::move(text_);
  }

 private:
  void close() {
    append(GoPart::kAll);
    turn_ = {};
  }

  void append(GoPart part) {
    Entries entries = shared_entries(input_, turn_.response);
    entries.emplace_back("System", Value::text(turn_.system));
    entries.emplace_back("Prompt", Value::text(turn_.prompt));
    text_ += source_.render(Value::map(std::move(entries)), part, input_.now);
  }

  const GoTemplate& source_;
  const GoInput& input_;
  Turn turn_;
  std::string text_;
};

}  // namespace

std::string render(const GoTemplate& source, const GoInput& input) {
  if (input.is_raw) return input.prompt;
  if (!input.prompt.empty() && !input.suffix.empty()) return render_fill(source, input);
  const std::vector<GoMessage> messages = merged(all_messages(input));
  if (source.mentions("Messages")) return render_messages(source, input, messages);
  return LegacyRendering(source, input).run(messages);
}

}  // namespace billow::prompt
