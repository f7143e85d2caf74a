// Finds tokenizer.ggml.pre: the name of the rule by which a byte-pair vocabulary splits texts into
// words. A wrong name silently gives wrong tokens, so the converter never guesses. Plain functions,
// thread-safe.
#pragma once

#include <string>

#include "convert/json_document.h"
#include "convert/vocabulary.h"

namespace billow::convert {

// Returns the name that `vocabulary` lacks; everything else in it is known. The tokens of a probe
// text identify a published vocabulary. The steps in "pre_tokenizer" of tokenizer.json identify
// other vocabularies. `tokenizer` is null if there is no such file. Throws Error (kUnsupported) if
// both lookups fail.
std::string pre_tokenizer_name(const DocumentFields* tokenizer, const Vocabulary& vocabulary);

// Returns the name of a published WordPiece vocabulary, else "default". Readers ignore the name.
std::string word_piece_name(const Vocabulary& vocabulary);

}  // namespace billow::convert
