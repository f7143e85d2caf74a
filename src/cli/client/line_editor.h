// Where a session's texts come from: a terminal with editing and history, or any stream. For the
// main thread.
#pragma once

#include <istream>
#include <memory>
#include <string>
#include <vector>

#include "cli/client/typed_text.h"

namespace billow::cli {

struct TypedLine {
  enum class Kind { kLine, kInterrupt, kEnd };
  Kind kind = Kind::kLine;
  // Without its end; of several lines where the user pasted them or broke them with Alt-Enter. Of
  // kInterrupt, what had been typed.
  std::string text{};
  TypedEnds typed{};
};

class LineEditor {
 public:
  virtual ~LineEditor() = default;
  // Shows the prompt, or that of a line that continues the one before, and reads. On a terminal,
  // what the user enters stays in view, and the cursor is at the start of the row below.
  virtual TypedLine read(bool continues) = 0;
  // Keeps what the user may want to recall: one entry for one message or command.
  virtual void add_to_history(const std::string& /*entry*/) {}
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

// For standard input and output on one terminal, which has modes for editing until the editor is
// gone. The history is kept in the file `history_path`; an empty path keeps none.
std::unique_ptr<LineEditor> terminal_line_editor(const std::string& history_path);

// The last entries that were added, in a file that has a line for each. A line break within an
// entry is U+2028 there, so that Ollama, which uses the same file, sees one line too.
class LineHistory {
 public:
  explicit LineHistory(std::string path);                                        // reads the file
  const std::vector<std::string>& entries() const noexcept { return entries_; }  // oldest first
  // Adds an entry, unless it is empty or the same as the last one, and writes the file. An entry
  // that cannot be written is lost with the program.
  void add(const std::string& entry);

  static constexpr size_t kMaxEntries = 100;

 private:
  std::string path_;
  std::vector<std::string> entries_;
};

}  // namespace billow::cli
