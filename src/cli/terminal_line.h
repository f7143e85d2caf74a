// A line of progress that is redrawn on the terminal of standard error. It stays a single line when
// the terminal is resized: after each drawing, the cursor is at the start of the line. If a
// narrower terminal wraps the line, it keeps the cursor at the first of the rows, and the next
// drawing erases all of them. If a terminal cuts the line instead, nothing else is erased, either.
// Only smart terminals may get such a line.
#pragma once

#include <cstddef>
#include <string>

namespace billow::cli {

// Returns whether `stream`, STDOUT_FILENO or STDERR_FILENO, is a terminal that knows escape
// sequences: TERM is set and not "dumb".
bool is_smart_terminal(int stream);

// Returns whether `stream` gets colours: it is a smart terminal, and NO_COLOR is empty or not set
// (https://no-color.org).
bool shows_colours(int stream);

// Returns how wide a line on standard error may be now. The last column stays free, because some
// terminals go to the next line after it. 79 if standard error is not a terminal.
size_t progress_columns();

// Replaces the line by `text`, which must not be wider than progress_columns().
void draw_line(const std::string& text);
// Replaces the line by `text` a last time. The cursor goes to the next line.
void end_line(const std::string& text);
// Erases the line. The cursor stays at its start.
void erase_line();

}  // namespace billow::cli
