// Where a session's lines come from: a terminal with editing and history, or any stream. For the
// main thread.
#pragma once

#include <istream>
#include <memory>
#include <string>
#include <vector>

namespace billow::cli {

struct TypedLine {
  enum class Kind { kLine, kInterrupt, kEnd };
  Kind kind = Kind::kLine;
  std::string text{};   // without its end; of kInterrupt, what had been typed
  bool pasted = false;  // more of what was pasted follows
};

class LineEditor {
 public:
  virtual ~LineEditor() = default;
  // Shows the prompt, or that of a line that continues the one before, and reads.
  virtual TypedLine read(bool continues) = 0;
  virtual void keep_history(bool /*keep*/) {}
};

// Reads lines as they come and shows no prompt.
class PlainLineEditor : public LineEditor {
 public:
  explicit PlainLineEditor(std::istream& in) : in_(in) {}
  TypedLine read(bool continues) override;

 private:
  std::istream& in_;
};

// For standard input and output on one terminal. Lines are kept in the file `history_path`; an
// empty path keeps none.
std::unique_ptr<LineEditor> terminal_line_editor(const std::string& history_path);

// The last lines that were typed, in a file.
class LineHistory {
 public:
  explicit LineHistory(std::string path);  // reads what is there
  const std::vector<std::string>& lines() const noexcept { return lines_; }
  // Adds a line, unless it is empty or the last one again, and writes the file. What cannot be
  // written is lost.
  void add(const std::string& line);

  static constexpr size_t kMostLines = 100;

 private:
  std::string path_;
  std::vector<std::string> lines_;
};

}  // namespace billow::cli
