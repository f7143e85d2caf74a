// Shows an edited text on a terminal. Pure: returns the bytes to write. Repaints only changes.
// Expects that the terminal wraps the rows of the text again after a resize, as most terminals do.
// If the text is higher than the terminal, shows the rows around the cursor. Not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace billow::cli {

struct ScreenSize {
  size_t n_columns = 80;
  size_t n_rows = 24;
  bool operator==(const ScreenSize&) const = default;
};

struct ShownText {
  std::string_view prompt;         // for the first line; ASCII
  std::u32string text{};           // lines end in \n
  size_t cursor = 0;               // index of the character at the cursor; text.size(): at the end
  std::string_view placeholder{};  // shown in grey if `text` is empty; ASCII
};

class LineView {
 public:
  // Replaces the text on the screen by `shown`. The first call draws from the cursor's row on.
  std::string draw(const ShownText& shown, ScreenSize size);
  // Shows the whole text a last time and moves the cursor to the start of the next row.
  std::string finish(const ShownText& shown, ScreenSize size);
  // Keeps the visible rows and moves the cursor to the start of the next row.
  std::string leave(ScreenSize size);
  // Forgets the text on the screen. The next draw() begins at the cursor's row.
  void forget();

 private:
  // A character with its combining marks. Each line ends with a blank, so that the cursor can be
  // there.
  struct Glyph {
    std::string bytes;
    size_t width = 1;
    bool ends_line = false;
    bool operator==(const Glyph&) const = default;
  };
  struct Place {
    size_t row = 0;
    size_t column = 0;
    bool operator==(const Place&) const = default;
  };
  struct Glyphs {
    std::vector<Glyph> list;
    size_t cursor = 0;
  };

  static Glyphs glyphs_of(const ShownText& shown, size_t n_columns, bool is_last);
  static std::vector<Place> places_of(const std::vector<Glyph>& glyphs, size_t n_columns);
  std::string paint(std::vector<Glyph> glyphs, ScreenSize size);

  std::vector<Glyph> painted_;
  size_t painted_cursor_ = 0;  // index of the glyph at the terminal's cursor
  size_t top_ = 0;             // the first painted row of the text
  ScreenSize size_;            // size of the terminal at the last paint
};

}  // namespace billow::cli
