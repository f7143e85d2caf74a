// Whether two models have the same tokens, so that one can continue the text of the other. Any
// thread.
#pragma once

#include <string>

#include "gguf/file.h"

namespace billow::tokenizer {

// Why tokens of one file are not those of the other, in words that follow "A cannot draft for B: ";
// empty: they are the same. Up to 128 tokens at the end may be missing from one of them: models of
// one family have tables that are filled up to several sizes.
// REQUIRES: the files were opened with their string arrays.
std::string vocabulary_difference(const gguf::File& a, const gguf::File& b);

}  // namespace billow::tokenizer
