// Compares the tokens of two models. If the tokens are the same, one model can continue the text of
// the other. Thread-safe.
#pragma once

#include <string>

#include "gguf/file.h"

namespace billow::tokenizer {

// Returns how the tokens of two files differ, in words that can follow "A cannot draft for B: ";
// empty if they are the same. One file may lack up to 128 tokens at the end, because models of one
// family pad their tables to different sizes. REQUIRES: the files were opened with their string
// arrays.
std::string vocabulary_difference(const gguf::File& a, const gguf::File& b);

}  // namespace billow::tokenizer
