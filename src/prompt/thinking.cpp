#include "prompt/thinking.h"

#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "prompt/go/syntax.h"
#include "prompt/partial_tag.h"

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

// `is_walking` inside of a range over the messages, and not of another range in it.
std::optional<ThinkingTags> find_tags(const Nodes& nodes, bool is_walking) {
  for (const Node& node : nodes) {
    const bool is_range = node.kind == Node::Kind::kRange;
    const bool walks = is_range ? go::mentions(node.pipeline.get(), "Messages") : is_walking;
    if (auto tags = find_tags(node.body, walks)) return tags;
    // Only the body of `with .Thinking` prints it as the dot.
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

}  // namespace

std::optional<ThinkingTags> infer_thinking_tags(const GoTemplate& source) {
  return find_tags(source.program().root, false);
}

bool ends_in_thinking(std::string_view prompt, const ThinkingTags& tags) {
  const size_t last = prompt.find_last_not_of(kBlanks);
  return !tags.open.empty() && last != prompt.npos &&
         prompt.substr(0, last + 1).ends_with(tags.open);
}

ThinkingScanner::ThinkingScanner(ThinkingTags tags, bool is_open)
    : tags_(std::move(tags)), state_(is_open ? State::kAfterOpen : State::kStart) {
  BILLOW_CHECK(!tags_.open.empty() && !tags_.close.empty());
}

ThinkingText ThinkingScanner::add(std::string_view chunk) {
  ThinkingText out;
  held_ += chunk;
  while (step(out)) {
  }
  return out;
}

ThinkingText ThinkingScanner::finish() {
  ThinkingText out;
  (state_ == State::kThinking ? out.thinking : out.content) = std::exchange(held_, "");
  state_ = State::kContent;
  return out;
}

bool ThinkingScanner::step(ThinkingText& out) {
  if (held_.empty()) return false;
  switch (state_) {
    case State::kStart:
      return look_for_open(out);
    case State::kAfterOpen:
      return drop_blanks(State::kThinking);
    case State::kThinking:
      return look_for_close(out);
    case State::kAfterClose:
      return drop_blanks(State::kContent);
    case State::kContent:
      out.content += std::exchange(held_, "");
      return false;
  }
  return false;
}

bool ThinkingScanner::look_for_open(ThinkingText& out) {
  const size_t begin = held_.find_first_not_of(kBlanks);
  if (begin == held_.npos) return false;
  const std::string_view text = std::string_view(held_).substr(begin);
  if (text.starts_with(tags_.open)) {
    held_.erase(0, begin + tags_.open.size());
    state_ = State::kAfterOpen;
    return true;
  }
  if (std::string_view(tags_.open).starts_with(text)) return false;
  out.content += std::exchange(held_, "");
  state_ = State::kContent;
  return false;
}

bool ThinkingScanner::look_for_close(ThinkingText& out) {
  const size_t at = held_.find(tags_.close);
  if (at != held_.npos) {
    out.thinking.append(held_, 0, at);
    held_.erase(0, at + tags_.close.size());
    state_ = State::kAfterClose;
    return true;
  }
  const size_t n_certain = held_.size() - partial_tag_length(held_, tags_.close);
  out.thinking.append(held_, 0, n_certain);
  held_.erase(0, n_certain);
  return false;
}

bool ThinkingScanner::drop_blanks(State next) {
  held_.erase(0, std::min(held_.find_first_not_of(kBlanks), held_.size()));
  if (held_.empty()) return false;
  state_ = next;
  return true;
}

}  // namespace billow::prompt
