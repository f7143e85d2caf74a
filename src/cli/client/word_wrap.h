// Breaks the lines of a stream of text between words. One thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace billow::cli {

class WordWrap {
 public:
  // For a terminal of so many columns; less than 10, or 0, is one that is left alone.
  explicit WordWrap(size_t n_columns);

  // What to write for the next piece, which may end anywhere but inside a character. A word that
  // turns out too long for its line is taken back by control characters and begun on the next.
  std::string wrapped(std::string_view piece);

 private:
  size_t limit_;  // columns that text may take
  size_t column_ = 0;
  std::string word_;  // what has been written of the word at the end of the line
  size_t word_columns_ = 0;
};

}  // namespace billow::cli
