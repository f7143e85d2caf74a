// tokenizer.ggml.pre: the name of the rule by which a byte-pair vocabulary cuts texts into words.
// A wrong name gives other tokens without any error, so it is never assumed. Plain functions; any
// thread.
#pragma once

#include <string>

#include "convert/json_document.h"
#include "convert/vocabulary.h"

namespace billow::convert {

// The name for `vocabulary`, which is whole but for it. A published vocabulary is known by its
// tokens; another by the steps in "pre_tokenizer" of tokenizer.json (`tokenizer`; null where there
// is no such file). Throws Error (kUnsupported) where neither is known.
std::string pre_tokenizer_name(const DocumentFields* tokenizer, const Vocabulary& vocabulary);

// The name that a published WordPiece vocabulary has, else "default": readers do not ask for it.
std::string word_piece_name(const Vocabulary& vocabulary);

}  // namespace billow::convert
