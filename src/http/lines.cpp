#include "http/lines.h"

#include "base/error.h"

namespace billow::http {

void LineSplitter::refuse_line() {
  if (long_lines_ == LongLines::kAreErrors) {
    throw Error(ErrorCode::kTooLarge,
                "a line of the stream has more than " + std::to_string(max_bytes_) + " bytes");
  }
  is_dropping_ = true;
  line_.clear();
}

void LineSplitter::add_to_line(std::string_view text) {
  if (is_dropping_) return;
  // Allows one extra byte for a "\r" at the end, which may belong to the line end.
  const size_t limit = max_bytes_ + (ends_ == Ends::kNewline ? 1 : 0);
  if (text.size() > limit - line_.size()) return refuse_line();
  line_ += text;
}

void LineSplitter::end_line(std::string_view rest, const OnLine& on_line) {
  std::string_view line = rest;
  if (!line_.empty()) {
    add_to_line(rest);
    line = line_;
  }
  if (ends_ == Ends::kNewline && line.ends_with('\r')) line.remove_suffix(1);
  if (line.size() > max_bytes_) refuse_line();
  if (!is_dropping_) on_line(line);
  is_dropping_ = false;
  line_.clear();
}

void LineSplitter::feed(std::string_view piece, const OnLine& on_line) {
  const char* ends = ends_ == Ends::kNewline ? "\n" : "\r\n";
  while (!piece.empty()) {
    if (skip_newline_ && piece.front() == '\n') piece.remove_prefix(1);
    skip_newline_ = false;
    const size_t end = piece.find_first_of(ends);
    if (end == std::string_view::npos) return add_to_line(piece);
    skip_newline_ = piece[end] == '\r';
    end_line(piece.substr(0, end), on_line);
    piece.remove_prefix(end + 1);
  }
}

void LineSplitter::finish(const OnLine& on_line) {
  skip_newline_ = false;
  if (!line_.empty() || is_dropping_) end_line({}, on_line);
}

}  // namespace billow::http
