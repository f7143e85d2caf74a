// Tool calls in the answers of models with Go templates: the tag that announces them, and a parser
// of the streamed answer. A parser belongs to one answer and one thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "prompt/go_template.h"

namespace billow::prompt {

// The text with which the template begins the calls of a message, up to the first brace: "{" if it
// begins them with nothing else.
std::string infer_tool_tag(const GoTemplate& source);

struct ToolCall {
  size_t index = 0;  // counts the calls of the answer from 0
  std::string name;
  std::string arguments;  // a JSON object, its keys in the model's order
};

struct ToolCallText {
  std::string text;
  std::vector<ToolCall> calls;
};

// Splits an answer (without its thinking) into text and calls. Text before the tag is content; what
// follows it and is no call is dropped, except that with the tags "{" and "[" the answer must begin
// with the tag, what follows the end of the calls is content, and so is everything if there was no
// call. A call that the end of the answer cuts off is content, with its tag: nobody may take it for
// a call, and nobody loses it. The results do not depend on how the answer is cut into chunks.
class ToolCallParser {
 public:
  // `names`: the declared tools; others are never called, and without any everything is content.
  ToolCallParser(std::vector<std::string> names, std::string tag);

  // Takes the next chunk, and returns what has become certain.
  ToolCallText add(std::string_view chunk);

  // What is still held back, at the end of the answer.
  ToolCallText finish();

 private:
  enum class State { kLooking, kCalls, kBetween, kContent };

  bool is_bracket() const { return tag_ == "{" || tag_ == "["; }
  bool step(ToolCallText& out);
  bool look_for_bracket(ToolCallText& out);
  bool look_for_tag(ToolCallText& out);
  bool look_for_more(ToolCallText& out);
  bool scan(ToolCallText& out);
  bool take_byte(char byte);
  void end_object(ToolCallText& out);
  std::string cut_off_call() const;
  void begin_calls();
  void end_calls(ToolCallText& out);

  std::vector<std::string> names_;
  std::string tag_;
  State state_;
  std::string held_;    // text not yet decided on; in kCalls from the tag, or the end of a call, on
  size_t scanned_ = 0;  // bytes of it that have been looked at
  size_t object_ = 0;   // where in it the present object begins
  size_t n_braces_ = 0;    // open around the present byte
  size_t n_brackets_ = 0;  // open, outside of objects
  bool is_text_ = false;   // inside of a text of an object
  bool is_escaped_ = false;
  std::string passed_;     // looked through since the tag without finding a call
  bool has_call_ = false;  // since the tag
  size_t n_calls_ = 0;
};

}  // namespace billow::prompt
