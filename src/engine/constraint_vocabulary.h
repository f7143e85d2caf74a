// The tokens of a model as grammars see them.
#pragma once

#include <memory>

#include "constraint/vocabulary.h"
#include "tokenizer/tokenizer.h"

namespace billow::engine {

// Takes up to a second. The tokenizer must outlive its use. Throws Error (kUnsupported) where no
// token ends an answer.
std::shared_ptr<const constraint::Vocabulary> constraint_vocabulary(
    const tokenizer::Tokenizer& tokenizer);

}  // namespace billow::engine
