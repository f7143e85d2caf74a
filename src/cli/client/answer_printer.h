// An answer as it comes: what the model thinks, what it says, the functions that it calls. Writes
// to a function; one thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "cli/client/word_wrap.h"

namespace billow::cli {

struct AnswerStyle {
  size_t n_columns = 0;  // of the terminal, to wrap words; 0: not
  bool colours = false;
  bool hides_thinking = false;
};

class AnswerPrinter {
 public:
  using Write = std::function<void(const std::string& text)>;

  AnswerPrinter(const AnswerStyle& style, Write write);

  // An object of the answer of /api/generate or /api/chat.
  void take(const Json& object);
  // The answer ends here, complete or not.
  void end();

  const std::string& text() const noexcept { return text_; }
  const std::string& thinking() const noexcept { return thinking_; }

 private:
  void think(const std::string& piece);
  void stop_thinking();

  AnswerStyle style_;
  Write write_;
  WordWrap wrap_;
  std::string text_;
  std::string thinking_;
  bool is_thinking_ = false;  // its words are on the screen, and their end is not
};

// The lines of --verbose, from the last object of an answer; fields that are 0 are left out.
std::string metrics_text(const Json& last);

}  // namespace billow::cli
