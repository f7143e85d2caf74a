// Splits a stream into lines. The stream arrives in pieces of any size: NDJSON or other text. One
// thread at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace billow::http {

class LineSplitter {
 public:
  enum class Ends {
    kNewline,      // "\n" or "\r\n"
    kAnyOfTheWeb,  // a single "\r" also ends a line, as in server-sent events
  };
  enum class LongLines { kAreErrors, kAreDropped };
  using OnLine = std::function<void(std::string_view line)>;

  // A line of more than `max_bytes` bytes is long.
  explicit LineSplitter(size_t max_bytes, Ends ends = Ends::kNewline,
                        LongLines long_lines = LongLines::kAreErrors)
      : max_bytes_(max_bytes), ends_(ends), long_lines_(long_lines) {}

  // Takes the next piece of the stream and calls on_line for each complete line, without its line
  // end. The view is valid during the call. If long lines are errors, throws Error (kTooLarge) for
  // one; the splitter is unusable after that.
  void feed(std::string_view piece, const OnLine& on_line);

  // Ends the stream. Text after the last line end counts as a line. Throws as feed() does.
  void finish(const OnLine& on_line);

 private:
  void refuse_line();
  void add_to_line(std::string_view text);
  void end_line(std::string_view rest, const OnLine& on_line);

  size_t max_bytes_;
  Ends ends_;
  LongLines long_lines_;
  bool is_dropping_ = false;  // the incomplete line is too long
  std::string line_;          // the start of a line that is incomplete
  bool skip_newline_ =
      false;  // the previous line ended with "\r"; a "\n" that follows belongs to that line end
};

}  // namespace billow::http
