// The input of a session: a terminal with editing and history, or any stream. Use it from the main
// thread.
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
  // The text without its line end. It has several lines if the user pasted them or pressed
  // Alt-Enter. For kInterrupt, the text so far.
  std::string text{};
  TypedEnds typed{};
};

class LineEditor {
 public:
  virtual ~LineEditor() = default;
  // Shows the prompt and reads a text. `continues`: the text continues the previous line, so the
  // prompt differs. On a terminal, the entered text stays visible, and the cursor goes to the start
  // of the next row.
  virtual TypedLine read(bool continues) = 0;
  // Adds an entry that the user can recall: one message or command.
  virtual void add_to_history(const std::string& /*entry*/) {}
  virtual void keep_history(bool /*keep*/) {}
};

// Returns what is shown before a line. `continues`: see LineEditor::read().
constexpr const char* line_prompt(bool continues) { return continues ? "... " : ">>> "; }

// Reads lines from a stream. Shows a prompt on standard output only with `shows_prompts`.
class PlainLineEditor : public LineEditor {
 public:
  explicit PlainLineEditor(std::istream& in, bool shows_prompts = false)
      : in_(in), shows_prompts_(shows_prompts) {}
  TypedLine read(bool continues) override;

 private:
  std::istream& in_;
  const bool shows_prompts_;
};

// Returns an editor for standard input and output on one terminal. The terminal is in editing mode
// until the editor is destroyed. The history is stored in the file `history_path`; empty: not
// stored.
std::unique_ptr<LineEditor> terminal_line_editor(const std::string& history_path);

// Returns the editor of a session: a terminal_line_editor() with the user's history, which
// OLLAMA_NOHISTORY turns off, or a PlainLineEditor with prompts if standard output is no smart
// terminal.
std::unique_ptr<LineEditor> session_line_editor();

// The last entries, stored in a file with one line per entry. The file has U+2028 for a line break
// in an entry, so that Ollama, which uses the same file, sees one line, too.
class LineHistory {
 public:
  explicit LineHistory(std::string path);                                        // reads the file
  const std::vector<std::string>& entries() const noexcept { return entries_; }  // oldest first
  // Adds an entry, also to the file, which keeps the entries of other sessions. Ignores an entry
  // that is empty or equal to the last one. If the file cannot be written, the entry is lost when
  // the program ends.
  void add(const std::string& entry);

  static constexpr size_t kMaxEntries = 100;

 private:
  std::string path_;
  std::vector<std::string> entries_;
};

}  // namespace billow::cli
