// The tokens of a model for grammars.
#pragma once

#include <memory>

#include "constraint/vocabulary.h"
#include "tokenizer/tokenizer.h"

namespace billow::engine {

// Creates the vocabulary, in up to a second. The tokenizer must outlive the result. Throws Error
// (kUnsupported) if the model has no end token.
std::shared_ptr<const constraint::Vocabulary> constraint_vocabulary(
    const tokenizer::Tokenizer& tokenizer);

}  // namespace billow::engine
