// Shows an edited text on a terminal: pure, it gives the bytes to write. It repaints only what
// changed. Where the terminal was resized, it expects that the terminal has wrapped the rows of
// the text again, as most do. Text that is higher than the terminal is shown around the cursor.
// One thread.
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
  std::string_view prompt;         // of the first line; ASCII
  std::u32string text{};           // its lines end in \n
  size_t cursor = 0;               // the character that it stands on; text.size(): behind all
  std::string_view placeholder{};  // shown in grey where `text` is empty; ASCII
};

class LineView {
 public:
  // Shows `shown` at the place of what was shown before; at first, from the row of the cursor on.
  std::string draw(const ShownText& shown, ScreenSize size);
  // Shows all of it a last time and leaves the cursor at the start of the row below.
  std::string finish(const ShownText& shown, ScreenSize size);
  // Leaves what is in view as it is, and the cursor at the start of the row below.
  std::string leave(ScreenSize size);
  // What was shown is gone, or is to stay: the next draw() begins at the row of the cursor.
  void forget();

 private:
  // What takes place on the screen: a character and its marks. A line ends with a blank, on which
  // the cursor can stand.
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
  size_t painted_cursor_ = 0;  // the glyph that the terminal's cursor stands on
  size_t top_ = 0;             // the row of the whole text that is painted first
  ScreenSize size_;            // when it was painted
};

}  // namespace billow::cli
