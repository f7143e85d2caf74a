#include "cli/client/line_view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "cli/client/format.h"

namespace billow::cli {
namespace {

// A terminal that understands the output of a LineView. It wraps its rows again if its width
// changes.
class Screen {
 public:
  explicit Screen(ScreenSize size) : size_(size) { lines_.emplace_back(); }

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      if (bytes.starts_with("\033[")) {
        const size_t end = bytes.find_first_of("ABCDJHm", 2);
        const std::string number(bytes.substr(2, end - 2));
        execute(bytes[end], number.empty() ? 1 : std::stoul(number));
        bytes.remove_prefix(end + 1);
        continue;
      }
      const utf8::CodePoint c = utf8::decode(bytes);
      const std::string_view character = bytes.substr(0, c.n_bytes);
      if (c.value == '\r') {
        column_ = 0;
      } else if (c.value == '\n') {
        if (row_ + 1 == rows().size()) lines_.emplace_back();
        go_to(row_ + 1);
      } else if (column_width(c.value) == 0) {
        cell_before().text += character;
      } else {
        put(std::string(character), column_width(c.value));
      }
      bytes.remove_prefix(c.n_bytes);
    }
  }

  // Changes the size. The cursor stays on its cell.
  void resize(ScreenSize size) {
    const auto [line, cell] = position();
    size_ = size;
    row_ = 0;
    for (size_t i = 0; i < line; ++i) row_ += n_rows_of(lines_[i]);
    const std::vector<Row> parts = rows_of(lines_[line]);
    size_t part = 0;
    while (part + 1 < parts.size() && cell >= parts[part].end) ++part;
    row_ += part;
    column_ = 0;
    for (size_t i = parts[part].begin; i < cell; ++i) column_ += lines_[line][i].width;
  }

  // Returns the visible rows, without blanks at their ends and without empty rows at the end.
  std::vector<std::string> visible() const {
    std::vector<std::string> out = all();
    out.erase(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(std::min(top_, out.size())));
    return out;
  }
  std::vector<std::string> all() const {
    std::vector<std::string> out;
    for (const Line& line : lines_) {
      for (const Row& row : rows_of(line)) {
        std::string text;
        for (size_t i = row.begin; i < row.end; ++i) text += line[i].text;
        text.erase(text.find_last_not_of(' ') + 1);
        out.push_back(text);
      }
    }
    while (!out.empty() && out.back().empty()) out.pop_back();
    return out;
  }
  // Returns the text of the cell at the cursor.
  std::string at_cursor() const {
    const auto [line, cell] = position();
    return cell < lines_[line].size() ? lines_[line][cell].text : "";
  }
  size_t row() const { return row_; }

 private:
  struct Cell {
    std::string text;
    size_t width = 1;
  };
  using Line = std::vector<Cell>;  // up to a line break; can take several rows
  struct Row {
    size_t begin;
    size_t end;
  };

  // Moves to a row. Scrolls if the row is below the bottom.
  void go_to(size_t row) {
    row_ = row;
    top_ = std::max(top_, row_ + 1 - std::min(row_ + 1, size_.n_rows));
  }
  std::vector<Row> rows_of(const Line& line) const {
    std::vector<Row> rows = {{0, 0}};
    size_t column = 0;
    for (size_t i = 0; i < line.size(); ++i) {
      if (column > 0 && column + line[i].width > size_.n_columns) {
        rows.push_back({i, i});
        column = 0;
      }
      column += line[i].width;
      rows.back().end = i + 1;
    }
    return rows;
  }
  size_t n_rows_of(const Line& line) const { return rows_of(line).size(); }
  std::vector<std::pair<size_t, Row>> rows() const {
    std::vector<std::pair<size_t, Row>> out;
    for (size_t i = 0; i < lines_.size(); ++i) {
      for (const Row& row : rows_of(lines_[i])) out.emplace_back(i, row);
    }
    return out;
  }
  // Returns the line and the cell of the cursor.
  std::pair<size_t, size_t> position() const {
    const auto [line, row] = rows()[row_];
    size_t column = 0;
    size_t cell = row.begin;
    while (cell < row.end && column < column_) column += lines_[line][cell++].width;
    return {line, cell + (column_ > column ? column_ - column : 0)};
  }
  Cell& cell_before() {
    const auto [line, cell] = position();
    return lines_[line][cell - 1];
  }
  void put(std::string text, size_t width) {
    if (column_ > 0 && column_ + width > size_.n_columns) {  // wraps into the next row
      const auto [line, row] = rows()[row_];
      EXPECT_EQ(row.end, lines_[line].size()) << "wraps into an existing row";
      lines_[line].push_back({std::move(text), width});
      go_to(row_ + 1);
      column_ = width;
      return;
    }
    const auto [line, cell] = position();
    Line& cells = lines_[line];
    if (cells.size() < cell) cells.resize(cell, {" ", 1});
    if (cell == cells.size()) cells.emplace_back();
    cells[cell] = {std::move(text), width};
    column_ += width;
  }
  void execute(char command, size_t count) {
    switch (command) {
      case 'A':
        row_ = std::max(top_, row_ - std::min(row_, count));
        break;
      case 'B':
        row_ = std::min(top_ + size_.n_rows - 1, row_ + count);
        break;
      case 'C':
        column_ = std::min(column_ + count, size_.n_columns - 1);
        break;
      case 'J': {
        const auto [line, cell] = position();
        lines_.resize(line + 1);
        if (cell < lines_[line].size()) lines_[line].resize(cell);
        break;
      }
      default:
        break;
    }
  }

  ScreenSize size_;
  std::vector<Line> lines_;
  size_t top_ = 0;  // the first visible row
  size_t row_ = 0;  // like top_, counted from the first row that was ever written
  size_t column_ = 0;
};

std::string utf8_of(std::u32string_view text) {
  std::string bytes;
  for (const char32_t c : text) utf8::append(bytes, c);
  return bytes;
}

// Returns all rows of the text on a terminal of this width.
std::vector<std::string> wrapped(std::u32string_view text, size_t n_columns) {
  std::vector<std::string> rows = {">>> "};
  size_t column = 4;
  const auto next_row = [&](const char* begin) {
    rows.emplace_back(begin);
    column = rows.back().size();
  };
  for (const char32_t c : text) {
    if (c == '\n') {
      if (column + 1 > n_columns) next_row("");
      next_row("... ");
      continue;
    }
    const size_t width = column_width(c);
    if (column + width > n_columns) next_row("");
    rows.back() += utf8_of({&c, 1});
    column += width;
  }
  if (column + 1 > n_columns) rows.emplace_back();
  for (std::string& row : rows) row.erase(row.find_last_not_of(' ') + 1);
  return rows;
}

TEST(LineView, ShowsThePromptAndAPlaceholder) {
  Screen screen({40, 5});
  LineView view;
  screen.write(view.draw({.prompt = ">>> ", .text = U"", .placeholder = "Say"}, {40, 5}));
  EXPECT_EQ(screen.visible(), std::vector<std::string>{">>> Say"});
  EXPECT_EQ(screen.at_cursor(), "S");
  screen.write(
      view.draw({.prompt = ">>> ", .text = U"x", .cursor = 1, .placeholder = "Say"}, {40, 5}));
  EXPECT_EQ(screen.visible(), std::vector<std::string>{">>> x"});
  screen.write(view.draw({.prompt = ">>> ", .text = U"", .placeholder = "Say"}, {40, 5}));
  screen.write(view.finish({.prompt = ">>> ", .text = U"", .placeholder = "Say"}, {40, 5}));
  EXPECT_EQ(screen.all(), std::vector<std::string>{">>>"});
  EXPECT_EQ(screen.row(), 1u);
}

TEST(LineView, HidesAPlaceholderThatDoesNotFit) {
  LineView view;
  EXPECT_EQ(view.draw({.prompt = ">>> ", .text = U"", .placeholder = "Say"}, {7, 5}).find("Say"),
            std::string::npos);
}

TEST(LineView, ShowsControlCharactersAndTabs) {
  Screen screen({40, 5});
  LineView view;
  screen.write(view.draw({.prompt = ">>> ", .text = U"a\tb\x03\x1b[A", .cursor = 0}, {40, 5}));
  EXPECT_EQ(screen.visible(), std::vector<std::string>{">>> a   b^C^[[A"});
}

TEST(LineView, KeepsTheVisibleRowsOnLeave) {
  Screen screen({20, 3});
  LineView view;
  std::u32string text;
  for (const char32_t letter : std::u32string_view(U"abcdef")) text += std::u32string(30, letter);
  screen.write(view.draw({.prompt = ">>> ", .text = text, .cursor = 100}, {20, 3}));
  const std::vector<std::string> seen = screen.visible();
  screen.write(view.leave({20, 3}));
  screen.write("below");
  EXPECT_EQ(screen.all().back(), "below");
  EXPECT_EQ(screen.all().size(), seen.size() + 1);
  EXPECT_EQ(screen.visible()[0], seen[1]);
}

TEST(LineView, WritesOnlyWhatChanged) {
  LineView view;
  view.draw({.prompt = ">>> ", .text = U"some text", .cursor = 9}, {80, 24});
  const std::string more =
      view.draw({.prompt = ">>> ", .text = U"some text!", .cursor = 10}, {80, 24});
  EXPECT_EQ(more.find("some"), std::string::npos) << more;
  EXPECT_NE(more.find('!'), std::string::npos);
}

// After each random edit or resize, the screen has the rows above the text, and the wrapped text.
TEST(LineView, ShowsTheTextAfterEditsAndResizes) {
  constexpr std::u32string_view kLetters = U"abc xyzü€漢字\n";
  for (unsigned seed = 0; seed < 25; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&random](size_t n) { return random() % n; };
    ScreenSize size{20 + below(30), 1000};
    Screen screen(size);
    screen.write("above\r\n");
    LineView view;
    std::u32string text;
    size_t cursor = 0;
    for (int step = 0; step < 60; ++step) {
      switch (below(5)) {
        case 0:
        case 1: {
          std::u32string added;
          for (size_t n = below(12); n > 0; --n) added += kLetters[below(kLetters.size())];
          text.insert(cursor, added);
          cursor += added.size();
          break;
        }
        case 2:
          text.erase(cursor, below(5));
          break;
        case 3:
          cursor = below(text.size() + 1);
          break;
        default:
          size.n_columns = 20 + below(30);
          screen.resize(size);
      }
      screen.write(view.draw({.prompt = ">>> ", .text = text, .cursor = cursor}, size));
      std::vector<std::string> expected = wrapped(text, size.n_columns);
      expected.insert(expected.begin(), "above");
      while (expected.back().empty()) expected.pop_back();
      ASSERT_EQ(screen.all(), expected) << "seed " << seed << ", step " << step;
      const bool on_blank = cursor == text.size() || text[cursor] == '\n';
      const std::string under = on_blank ? " " : utf8_of(text.substr(cursor, 1));
      ASSERT_EQ(screen.at_cursor(), under) << "seed " << seed << ", step " << step;
    }
    screen.write(view.finish({.prompt = ">>> ", .text = text, .cursor = cursor}, size));
    screen.write("below");
    EXPECT_EQ(screen.all().front(), "above");
    EXPECT_EQ(screen.all().back(), "below");
  }
}

// If a text is higher than the screen, the rows around the cursor are visible.
TEST(LineView, ShowsAWindowOfALongText) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    std::mt19937 random(seed);
    const ScreenSize size{30, 6};
    Screen screen(size);
    LineView view;
    std::u32string text;
    for (int i = 0; i < 20; ++i) {
      text += std::u32string(random() % 50, static_cast<char32_t>('a' + i)) + U"\n";
    }
    for (int step = 0; step < 20; ++step) {
      const size_t cursor = random() % (text.size() + 1);
      if (random() % 3 == 0) text.insert(cursor, U"more\n");
      screen.write(view.draw({.prompt = ">>> ", .text = text, .cursor = cursor}, size));
      const std::vector<std::string> rows = wrapped(text, size.n_columns);
      const std::vector<std::string> seen = screen.visible();
      const auto found = std::search(rows.begin(), rows.end(), seen.begin(), seen.end());
      ASSERT_NE(found, rows.end()) << "seed " << seed << ", step " << step;
      const bool on_blank = cursor == text.size() || text[cursor] == '\n';
      ASSERT_EQ(screen.at_cursor(), on_blank ? " " : utf8_of(text.substr(cursor, 1)));
    }
    screen.write(view.finish({.prompt = ">>> ", .text = text}, size));
    screen.write("below");
    // The whole text follows the rows that have scrolled away.
    std::vector<std::string> whole = wrapped(text, size.n_columns);
    whole.push_back("below");
    const std::vector<std::string> all = screen.all();
    ASSERT_GE(all.size(), whole.size());
    EXPECT_TRUE(std::equal(whole.rbegin(), whole.rend(), all.rbegin())) << "seed " << seed;
  }
}

}  // namespace
}  // namespace billow::cli
