#include "cli/client/line_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "cli/client/format.h"

namespace billow::cli {
namespace {

constexpr std::string_view kContinuation = "... ";  // before each line except the first
constexpr std::string_view kEraseBelow = "\033[J";
constexpr std::string_view kGrey = "\033[38;5;245m";
constexpr std::string_view kPlain = "\033[0m";
constexpr size_t kTabColumns = 8;

std::string moved(size_t n, char direction) {
  return n == 0 ? "" : fmt::format("\033[{}{}", n, direction);
}

}  // namespace

void LineView::forget() {
  painted_.clear();
  painted_cursor_ = top_ = 0;
}

LineView::Glyphs LineView::glyphs_of(const ShownText& shown, size_t n_columns, bool is_last) {
  Glyphs out;
  std::vector<Glyph>& list = out.list;
  size_t line = 0;  // first glyph of the line
  const auto add_ascii = [&list](std::string_view text) {
    for (const char c : text) list.push_back({.bytes = std::string(1, c)});
  };
  add_ascii(shown.prompt);
  for (size_t i = 0; i < shown.text.size(); ++i) {
    if (i == shown.cursor) out.cursor = list.size();
    const char32_t c = shown.text[i];
    if (c == '\n') {
      list.push_back({.bytes = " ", .ends_line = true});
      line = list.size();
      add_ascii(kContinuation);
    } else if (c == '\t') {
      const size_t column = list.size() - line;
      add_ascii(std::string(kTabColumns - column % kTabColumns, ' '));
    } else if (c < 0x20 || c == 0x7F) {
      list.push_back({.bytes = "^"});
      list.push_back({.bytes = std::string(1, static_cast<char>(c ^ 0x40))});
    } else if (c >= 0x80 && c < 0xA0) {
      list.push_back({.bytes = "?"});  // some terminals execute these characters
    } else if (const size_t width = column_width(c); width == 0 && !list.empty()) {
      utf8::append(list.back().bytes, c);
    } else {
      list.push_back({.bytes = {}, .width = width});
      utf8::append(list.back().bytes, c);
    }
  }
  if (shown.cursor >= shown.text.size()) out.cursor = list.size();
  if (is_last) return out;
  if (shown.text.empty() && list.size() + shown.placeholder.size() < n_columns) {
    add_ascii(shown.placeholder);
    if (!shown.placeholder.empty()) {
      list[out.cursor].bytes.insert(0, kGrey);
      list.back().bytes += kPlain;
    }
  }
  list.push_back({.bytes = " "});
  return out;
}

std::vector<LineView::Place> LineView::places_of(const std::vector<Glyph>& glyphs,
                                                 size_t n_columns) {
  std::vector<Place> places;
  places.reserve(glyphs.size());
  Place at;
  for (const Glyph& glyph : glyphs) {
    if (at.column > 0 && at.column + glyph.width > n_columns) at = {at.row + 1, 0};
    places.push_back(at);
    at.column += glyph.width;
    if (glyph.ends_line) at = {at.row + 1, 0};
  }
  return places;
}

// Moves the cursor to the first changed glyph, or to the last glyph, and writes all glyphs from
// there. Then the terminal's cursor is after the last glyph.
std::string LineView::paint(std::vector<Glyph> glyphs, ScreenSize size) {
  size_t n_same = 0;
  std::string out = "\r";
  if (!painted_.empty()) {
    const std::vector<Place> places = places_of(painted_, size.n_columns);
    const std::vector<Place> places_now = places_of(glyphs, size.n_columns);
    if (size == size_) {
      const auto differs = std::ranges::mismatch(painted_, glyphs);
      n_same = static_cast<size_t>(differs.in1 - painted_.begin());
      n_same = std::min({n_same, painted_.size() - 1, glyphs.size() - 1});
      // Does not begin at the start of a row: only if the terminal wraps by itself, it knows that
      // the row continues the row above. Also, a narrow character can be at a place where a wide
      // one did not fit.
      const auto can_begin = [&](size_t i) {
        return i == 0 || (places[i].column > 0 && places[i] == places_now[i]);
      };
      while (!can_begin(n_same)) --n_same;
    }
    const Place from = places[painted_cursor_];
    const Place to = places[n_same];
    out += from.row >= to.row ? moved(from.row - to.row, 'A') : moved(to.row - from.row, 'B');
    out += moved(to.column, 'C');
  }
  out += kEraseBelow;
  for (size_t i = n_same; i < glyphs.size(); ++i) {
    out += glyphs[i].bytes;
    if (glyphs[i].ends_line && i + 1 < glyphs.size()) out += "\r\n";
  }
  painted_ = std::move(glyphs);
  size_ = size;
  return out;
}

std::string LineView::draw(const ShownText& shown, ScreenSize size) {
  Glyphs glyphs = glyphs_of(shown, size.n_columns, false);
  std::vector<Place> places = places_of(glyphs.list, size.n_columns);
  const size_t cursor_row = places[glyphs.cursor].row;
  const size_t n_rows = places.back().row + 1;
  // Moves the window only as far as the cursor or the end of the text requires.
  top_ = std::min({top_, cursor_row, n_rows - std::min(n_rows, size.n_rows)});
  top_ = std::max(top_, cursor_row + 1 - std::min(cursor_row + 1, size.n_rows));
  const auto row_begins = [&places](size_t row) {
    return std::ranges::lower_bound(places, row, {}, &Place::row) - places.begin();
  };
  const auto begin = row_begins(top_);
  const auto end = row_begins(top_ + size.n_rows);
  std::string out = paint({glyphs.list.begin() + begin, glyphs.list.begin() + end}, size);
  const Place last = places[static_cast<size_t>(end) - 1];
  const Place at = places[glyphs.cursor];
  painted_cursor_ = glyphs.cursor - static_cast<size_t>(begin);
  return out + "\r" + moved(last.row - at.row, 'A') + moved(at.column, 'C');
}

std::string LineView::finish(const ShownText& shown, ScreenSize size) {
  Glyphs glyphs = glyphs_of(shown, size.n_columns, true);
  const std::string out = paint(std::move(glyphs.list), size);
  forget();
  return out + "\r\n";
}

std::string LineView::leave(ScreenSize size) {
  std::string out;
  if (!painted_.empty()) {
    const std::vector<Place> places = places_of(painted_, size.n_columns);
    out = moved(places.back().row - places[painted_cursor_].row, 'B');
  }
  forget();
  return out + "\r\n";
}

}  // namespace billow::cli
