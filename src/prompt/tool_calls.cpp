#include "prompt/tool_calls.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "prompt/go/syntax.h"
#include "prompt/partial_tag.h"
#include "prompt/tool_json.h"

namespace billow::prompt {
namespace {

using go::Node;
using go::Nodes;

// The first text that is not blank, before any value is printed. `is_over` once one is.
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

std::string infer_tool_tag(const GoTemplate& source) {
  const Node* condition = find_condition(source.program().root);
  bool is_over = false;
  std::string_view text = condition ? first_text(condition->body, is_over) : "";
  text = text.substr(0, text.find('{'));
  text = trimmed(text);
  return text.empty() ? "{" : std::string(text);
}

ToolCallParser::ToolCallParser(std::vector<std::string> names, std::string tag)
    : names_(std::move(names)),
      tag_(tag.empty() ? "{" : std::move(tag)),
      state_(names_.empty() ? State::kContent : State::kLooking) {}

ToolCallText ToolCallParser::add(std::string_view chunk) {
  ToolCallText out;
  held_ += chunk;
  while (!held_.empty() && step(out)) {
  }
  return out;
}

ToolCallText ToolCallParser::finish() {
  ToolCallText out;
  const bool is_after_tag = state_ == State::kCalls && (!is_bracket() || has_call_);
  out.text = is_after_tag ? cut_off_call() : passed_ + held_;
  passed_.clear();
  held_.clear();
  state_ = State::kContent;
  return out;
}

bool ToolCallParser::step(ToolCallText& out) {
  switch (state_) {
    case State::kLooking:
      return is_bracket() ? look_for_bracket(out) : look_for_tag(out);
    case State::kCalls:
      return scan(out);
    case State::kBetween:
      return look_for_more(out);
    case State::kContent:
      out.text += std::exchange(held_, "");
      return false;
  }
  return false;
}

bool ToolCallParser::look_for_bracket(ToolCallText& out) {
  const size_t begin = std::min(held_.find_first_not_of(kBlanks), held_.size());
  out.text.append(held_, 0, begin);
  held_.erase(0, begin);
  if (held_.empty()) return false;
  if (held_.starts_with(tag_)) {
    begin_calls();
  } else {
    state_ = State::kContent;
  }
  return true;
}

bool ToolCallParser::look_for_tag(ToolCallText& out) {
  const size_t at = held_.find(tag_);
  const bool is_found = at != held_.npos;
  const size_t n_certain = is_found ? at : held_.size() - partial_tag_length(held_, tag_);
  out.text.append(held_, 0, n_certain);
  held_.erase(0, n_certain);
  if (is_found) begin_calls();
  return is_found;
}

// After a call that a brace alone announced: another one may follow.
bool ToolCallParser::look_for_more(ToolCallText&) {
  const size_t next = held_.find_first_not_of(" \t\r\n\v\f;,");
  if (next == held_.npos) return false;
  if (held_[next] == '{') {
    passed_ = held_.substr(0, next);
    held_.erase(0, next);
    begin_calls();
  } else {
    state_ = State::kContent;
  }
  return true;
}

void ToolCallParser::begin_calls() {
  state_ = State::kCalls;
  scanned_ = n_braces_ = n_brackets_ = 0;
  is_text_ = is_escaped_ = has_call_ = false;
}

// What is held back, from the tag of a call that has not ended, or from its object where it has no
// tag of its own.
std::string ToolCallParser::cut_off_call() const {
  const bool is_in_object = n_braces_ > 0;
  const size_t tag =
      is_bracket()
          ? held_.npos
          : std::string_view(held_).substr(0, is_in_object ? object_ : held_.size()).rfind(tag_);
  if (tag != held_.npos) return held_.substr(tag);
  return is_in_object ? held_.substr(object_) : "";
}

// Looks at the bytes that are new. False when all are looked at.
bool ToolCallParser::scan(ToolCallText& out) {
  while (scanned_ < held_.size()) {
    const char byte = held_[scanned_++];
    const bool is_object_end = take_byte(byte);
    if (is_object_end) {
      end_object(out);
      if (state_ != State::kCalls) return true;
    } else if (tag_ == "[" && byte == ']' && n_braces_ == 0 && n_brackets_ == 0) {
      end_calls(out);
      return true;
    }
  }
  return false;
}

// Whether `byte`, the last one scanned, ends an object.
bool ToolCallParser::take_byte(char byte) {
  if (n_braces_ == 0) {
    if (byte == '{') {
      object_ = scanned_ - 1;
      n_braces_ = 1;
    }
    if (byte == '[') ++n_brackets_;
    if (byte == ']' && n_brackets_ > 0) --n_brackets_;
    return false;
  }
  if (is_text_) {
    if (!is_escaped_ && byte == '"') is_text_ = false;
    is_escaped_ = !is_escaped_ && byte == '\\';
    return false;
  }
  if (byte == '"') is_text_ = true;
  if (byte == '{') ++n_braces_;
  return byte == '}' && --n_braces_ == 0;
}

void ToolCallParser::end_object(ToolCallText& out) {
  const std::string_view context = std::string_view(held_).substr(0, scanned_);
  for (FoundCall& call : find_calls(context.substr(object_), context, names_)) {
    out.calls.push_back({n_calls_++, std::move(call.name), std::move(call.arguments)});
    has_call_ = true;
  }
  if (is_bracket()) passed_ += context;
  held_.erase(0, std::exchange(scanned_, 0));
  if (tag_ == "{") end_calls(out);
}

void ToolCallParser::end_calls(ToolCallText& out) {
  passed_.append(held_, 0, scanned_);
  held_.erase(0, std::exchange(scanned_, 0));
  state_ = has_call_ && tag_ == "{" ? State::kBetween : State::kContent;
  if (!has_call_) out.text += passed_;
  passed_.clear();
}

}  // namespace billow::prompt
