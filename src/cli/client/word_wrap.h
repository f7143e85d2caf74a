// Wraps a stream of text between words. Not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace billow::cli {

class WordWrap {
 public:
  // `n_columns` is the width of the terminal; less than 10: do not wrap.
  explicit WordWrap(size_t n_columns);

  // Returns the bytes to write for the next piece of text. A piece may end anywhere except inside a
  // character. If a word is too long for its line, control characters erase it, and it moves to the
  // next line.
  std::string wrapped(std::string_view piece);

 private:
  size_t limit_;  // max columns of text
  size_t column_ = 0;
  std::string word_;  // the last word of the line, as far as it is written
  size_t word_columns_ = 0;
};

}  // namespace billow::cli
