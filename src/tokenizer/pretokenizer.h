// Splits text into the words that byte-level BPE merges within, by the patterns of one family. Owns
// the compiled patterns; immutable after construction, any thread may split.
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

  // The ends of the words, ascending, the last one text.size(): together they are the whole text.
  // Any bytes will do: each that is not UTF-8 is looked at as U+FFFD. Throws Error kTooLarge when a
  // pattern runs out of memory.
  std::vector<size_t> split(std::string_view text) const;

 private:
  class Pattern;
  std::vector<Pattern> patterns_;
};

}  // namespace billow::tokenizer
