#include "cli/client/word_wrap.h"

#include <fmt/format.h>

#include "base/utf8.h"
#include "cli/client/format.h"

namespace billow::cli {
namespace {

constexpr size_t kMinColumns = 10;
constexpr size_t kMargin = 5;
constexpr size_t kTabColumns = 8;

}  // namespace

WordWrap::WordWrap(size_t n_columns) : limit_(n_columns < kMinColumns ? 0 : n_columns - kMargin) {}

std::string WordWrap::wrapped(std::string_view piece) {
  if (limit_ == 0) return std::string(piece);
  std::string out;
  while (!piece.empty()) {
    const std::string_view c = piece.substr(0, utf8::decode(piece).n_bytes);
    piece.remove_prefix(c.size());
    if (c == "\n" || c == "\r") {
      out += c;
      column_ = word_columns_ = 0;
      word_.clear();
      continue;
    }
    const size_t width = c == "\t" ? kTabColumns - column_ % kTabColumns : display_width(c);
    const bool is_blank = c == " " || c == "\t";
    if (column_ > 0 && column_ + width > limit_) {
      if (is_blank || word_columns_ >= column_) {  // no word to move, or the word fills the line
        out += '\n';
        column_ = word_columns_ = 0;
        word_.clear();
        if (is_blank) continue;
      } else {
        if (word_columns_ > 0) out += fmt::format("\033[{}D\033[K", word_columns_);
        out += "\n" + word_;
        column_ = word_columns_;
      }
    }
    out += c;
    column_ += width;
    if (is_blank) {
      word_.clear();
      word_columns_ = 0;
    } else {
      word_ += c;
      word_columns_ += width;
    }
  }
  return out;
}

}  // namespace billow::cli
