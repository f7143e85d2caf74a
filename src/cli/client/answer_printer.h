// Prints an answer while it arrives: the model's thinking, its text and its function calls. Writes
// to a callback. Not thread-safe.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "cli/client/word_wrap.h"

namespace billow::cli {

struct AnswerStyle {
  size_t n_columns = 0;  // width of the terminal, for word wrap; 0: do not wrap
  bool colours = false;
  bool is_terminal = false;  // the answer is shown as its terminal_text()
  bool hides_thinking = false;
};

class AnswerPrinter {
 public:
  using Write = std::function<void(const std::string& text)>;

  AnswerPrinter(const AnswerStyle& style, Write write);

  // Prints one JSON object of a response of /api/generate or /api/chat.
  void take(const Json& object);
  // Ends the answer, complete or not.
  void end();

  const std::string& text() const noexcept { return text_; }
  const std::string& thinking() const noexcept { return thinking_; }

 private:
  void think(const std::string& piece);
  void stop_thinking();
  // Returns text of the model for the output.
  std::string shown(const std::string& text) const;
  void show(const std::string& piece);

  AnswerStyle style_;
  Write write_;
  WordWrap wrap_;
  std::string text_;
  std::string thinking_;
  bool is_thinking_ = false;  // thinking is on the screen, without its end line
};

// Returns the lines of --verbose, from the last object of a response. Omits fields that are 0.
std::string metrics_text(const Json& last);

}  // namespace billow::cli
