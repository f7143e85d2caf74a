// Splits text into words by the patterns of one family. Byte-level BPE merges only within a word.
// Owns the compiled patterns. Immutable after construction; thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "tokenizer/pretokenizer_table.h"

namespace billow::tokenizer {

class PreTokenizer {
 public:
  explicit PreTokenizer(const PreTokenizerFamily& family);
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // Returns the ends of the words, ascending; the last end is text.size(). The words cover the
  // whole text. Accepts any bytes: each byte that is not UTF-8 counts as U+FFFD. Throws Error
  // kTooLarge if a pattern runs out of memory.
  std::vector<size_t> split(std::string_view text) const;

 private:
  class Pattern;
  std::vector<Pattern> patterns_;
};

}  // namespace billow::tokenizer
