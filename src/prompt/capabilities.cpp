#include "prompt/capabilities.h"

#include "prompt/go/syntax.h"
#include "prompt/go_markers.h"

namespace billow::prompt {
namespace {

bool has_constant(const go::Pipeline* pipeline, std::string_view text) {
  if (!pipeline) return false;
  for (const go::Command& command : pipeline->commands) {
    for (const go::Operand& operand : command.operands) {
      const std::string* constant = operand.constant.as_text();
      if ((constant && *constant == text) || has_constant(operand.pipeline.get(), text))
        return true;
    }
  }
  return false;
}

bool has_constant(const go::Nodes& nodes, std::string_view text) {
  for (const go::Node& node : nodes) {
    if (has_constant(node.pipeline.get(), text) || has_constant(node.body, text) ||
        has_constant(node.other, text)) {
      return true;
    }
  }
  return false;
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

int count(const TemplateCapabilities& all) {
  return (all.tools ? 1 : 0) + (all.insert ? 1 : 0) + (all.thinking ? 1 : 0);
}

}  // namespace

TemplateCapabilities capabilities_of(const GoTemplate& source) {
  return {.tools = source.mentions("Tools"),
          .insert = source.mentions("Suffix"),
          .thinking = infer_thinking_tags(source).has_value(),
          .tool_results = source.mentions("ToolName") || source.mentions("ToolCallID") ||
                          has_constant(source.program().root, "tool")};
}

TemplateCapabilities capabilities_of_jinja(std::string_view source) {
  const bool has_close = contains(source, "</think>");
  const bool has_cut =
      contains(source, "split('</think>')") || contains(source, "split(\"</think>\")");
  return {.tools = contains(source, "tools") || contains(source, "tool_call"),
          .insert = false,
          .thinking = (has_close && contains(source, "<think>")) || has_cut,
          .tool_results = contains(source, "'tool'") || contains(source, "\"tool\"") ||
                          contains(source, "ipython") || contains(source, "tool_response") ||
                          contains(source, "tool_result")};
}

bool prefers_jinja(const TemplateCapabilities& go, const TemplateCapabilities& jinja) {
  const bool go_closes = go.tools && go.tool_results;
  const bool jinja_closes = jinja.tools && jinja.tool_results;
  if (go_closes && !jinja_closes) return false;
  if (count(jinja) != count(go)) return count(jinja) > count(go);
  return go.tools && jinja.tools && jinja.tool_results && !go.tool_results;
}

TemplateKind choose_template(const TemplateCapabilities* go, const TemplateCapabilities* jinja,
                             GoTemplateUse use) {
  const bool is_go = go && use != GoTemplateUse::kNever &&
                     !(use == GoTemplateUse::kAuto && jinja && prefers_jinja(*go, *jinja));
  if (is_go) return TemplateKind::kGo;
  return jinja ? TemplateKind::kJinja : TemplateKind::kNone;
}

}  // namespace billow::prompt
