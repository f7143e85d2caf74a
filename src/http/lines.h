// Lines out of a stream that arrives in pieces of any size: NDJSON and other text by lines. One
// thread.
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
    kAnyOfTheWeb,  // a "\r" alone ends a line too, as in server-sent events
  };
  using OnLine = std::function<void(std::string_view line)>;

  // Lines of more than `max_bytes` bytes are refused.
  explicit LineSplitter(size_t max_bytes, Ends ends = Ends::kNewline)
      : max_bytes_(max_bytes), ends_(ends) {}

  // Takes the next piece of the stream and calls on_line with each line that is complete now,
  // without its end; the view is good during the call. Throws Error (kTooLarge) for a line that is
  // too long; the splitter is of no use after that.
  void feed(std::string_view piece, const OnLine& on_line);

  // The stream is over: what stands behind the last line end, if anything, is a line too.
  void finish(const OnLine& on_line);

 private:
  void add_to_line(std::string_view text);
  void end_line(std::string_view rest, const OnLine& on_line);

  size_t max_bytes_;
  Ends ends_;
  std::string line_;           // the beginning of a line whose end has not come yet
  bool skip_newline_ = false;  // a "\r" ended the line before; a "\n" behind it belongs to it
};

}  // namespace billow::http
