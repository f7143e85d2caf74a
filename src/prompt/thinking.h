// The thinking of a model: which tags its Go template puts around it, and a scanner that takes it
// out of a streamed answer. A scanner belongs to one answer and one thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "prompt/go_template.h"

namespace billow::prompt {

struct ThinkingTags {
  std::string open;
  std::string close;
};

// The texts that begin and end the innermost block in which the template prints .Thinking of a
// message, trimmed; nullopt if there is no such block, or none that begins and ends with text.
std::optional<ThinkingTags> infer_thinking_tags(const GoTemplate& source);

// Whether a prompt ends with the open tag, blanks after it aside: the answer begins with thinking.
bool ends_in_thinking(std::string_view prompt, const ThinkingTags& tags);

struct ThinkingText {
  std::string thinking;
  std::string content;
};

// Splits an answer into thinking and content. Only what the answer begins with is thinking: blanks
// before its open tag, and after both tags, are dropped, and whatever follows the first close tag
// is content, as is an answer that begins otherwise. The parts do not depend on how the answer is
// cut into chunks.
class ThinkingScanner {
 public:
  // REQUIRES: both tags have text. With `is_open` the answer begins inside of thinking.
  explicit ThinkingScanner(ThinkingTags tags, bool is_open = false);

  // Takes the next chunk, and returns what has become certain.
  ThinkingText add(std::string_view chunk);

  // What is still held back, at the end of the answer.
  ThinkingText finish();

 private:
  enum class State { kStart, kAfterOpen, kThinking, kAfterClose, kContent };
  // One step into the next state; false if it needs more text.
  bool step(ThinkingText& out);
  bool look_for_open(ThinkingText& out);
  bool look_for_close(ThinkingText& out);
  bool drop_blanks(State next);

  ThinkingTags tags_;
  State state_;
  std::string held_;
};

}  // namespace billow::prompt
