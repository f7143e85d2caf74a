#include "prompt/go_markers.h"

#include <string_view>

#include "base/text.h"
#include "prompt/go/syntax.h"

namespace billow::prompt {
namespace {

using go::Node;
using go::Nodes;

std::optional<ThinkingTags> tags_around(const Nodes& nodes) {
  if (nodes.empty()) return std::nullopt;
  const Node& first = nodes.front();
  const Node& last = nodes.back();
  if (first.kind != Node::Kind::kText || last.kind != Node::Kind::kText) return std::nullopt;
  ThinkingTags tags{std::string(trimmed(first.text)), std::string(trimmed(last.text))};
  if (tags.open.empty() || tags.close.empty()) return std::nullopt;
  return tags;
}

bool mentions_thinking(const Node& node) { return go::mentions(node.pipeline.get(), "Thinking"); }

// Searches for the tags. `is_walking`: the nodes are in a range over the messages, and in no other
// range within that range.
std::optional<ThinkingTags> find_tags(const Nodes& nodes, bool is_walking) {
  for (const Node& node : nodes) {
    const bool is_range = node.kind == Node::Kind::kRange;
    const bool walks = is_range ? go::mentions(node.pipeline.get(), "Messages") : is_walking;
    if (auto tags = find_tags(node.body, walks)) return tags;
    // Only the body of `with .Thinking` prints .Thinking as the dot.
    const bool is_with = node.kind == Node::Kind::kWith && mentions_thinking(node);
    if (is_walking && is_with) {
      if (auto tags = tags_around(node.body)) return tags;
    }
    if (is_walking && node.kind == Node::Kind::kAction && mentions_thinking(node)) {
      if (auto tags = tags_around(nodes)) return tags;
    }
    if (auto tags = find_tags(node.other, is_walking)) return tags;
  }
  return std::nullopt;
}

// Returns the first text that is not blank, if the template prints no value before it. Sets
// `is_over` after a text or a value.
std::string_view first_text(const Nodes& nodes, bool& is_over) {
  for (const Node& node : nodes) {
    if (node.kind == Node::Kind::kText && node.text.find_first_not_of(kBlanks) != node.text.npos) {
      is_over = true;
      return node.text;
    }
    const bool is_action = node.kind == Node::Kind::kAction && node.pipeline->variables.empty();
    if (is_action || node.kind == Node::Kind::kTemplate) is_over = true;
    for (const Nodes* inner : {&node.body, &node.other}) {
      if (is_over) return "";
      const std::string_view text = first_text(*inner, is_over);
      if (!text.empty()) return text;
    }
  }
  return "";
}

const Node* find_condition(const Nodes& nodes) {
  for (const Node& node : nodes) {
    if (node.kind == Node::Kind::kIf && go::mentions(node.pipeline.get(), "ToolCalls"))
      return &node;
    for (const Nodes* inner : {&node.body, &node.other}) {
      if (const Node* found = find_condition(*inner)) return found;
    }
  }
  return nullptr;
}

}  // namespace

std::optional<ThinkingTags> infer_thinking_tags(const GoTemplate& source) {
  return find_tags(source.program().root, false);
}

std::string infer_tool_tag(const GoTemplate& source) {
  const Node* condition = find_condition(source.program().root);
  bool is_over = false;
  std::string_view text = condition ? first_text(condition->body, is_over) : "";
  text = text.substr(0, text.find('{'));
  text = trimmed(text);
  return text.empty() ? "{" : std::string(text);
}

}  // namespace billow::prompt
