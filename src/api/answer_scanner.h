// What a model writes, taken apart into thinking, tool calls and content while it comes. Belongs to
// one answer and one thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/generation.h"
#include "prompt/thinking.h"
#include "prompt/tool_calls.h"

namespace billow::api {

struct AnswerShape {
  std::optional<prompt::ThinkingTags> thinking{};  // absent: none is looked for
  bool begins_in_thinking = false;                 // the prompt has opened it
  std::vector<std::string> tools{};                // their names; none: no calls are looked for
  std::string tool_tag{};
};

class AnswerScanner {
 public:
  explicit AnswerScanner(AnswerShape shape);

  // What has become certain with the next piece; empty where nothing has.
  Delta add(std::string_view text);
  // What was held back, at the end of the answer.
  Delta finish();

 private:
  void take(Delta& delta, prompt::ToolCallText parsed);

  std::optional<prompt::ThinkingScanner> thinking_;
  std::optional<prompt::ToolCallParser> tools_;
};

// The tag that begins tool calls where the template is a Jinja one: of those that are known, the
// first that its text has; else "{".
std::string tool_tag_of_jinja(std::string_view source);

// "call_" and 8 random letters or digits.
std::string new_call_id();

}  // namespace billow::api
