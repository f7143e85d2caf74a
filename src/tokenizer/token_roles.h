// Which tokens play which part: begin, end, separator, fill-in-the-middle, and the set that ends a
// generation. From the keys of the file, the defaults of the kind, and, for what files leave out,
// the texts by which models name these tokens.
#pragma once

#include <vector>

#include "tokenizer/settings.h"
#include "tokenizer/token.h"
#include "tokenizer/vocabulary.h"

namespace billow::tokenizer {

// kNoToken where the vocabulary has no such token.
struct TokenRoles {
  TokenId bos = kNoToken;
  TokenId eos = kNoToken;
  TokenId eot = kNoToken;  // end of a turn of a chat
  TokenId eom = kNoToken;  // end of a message that waits for a tool
  TokenId unknown = kNoToken;
  TokenId separator = kNoToken;
  TokenId padding = kNoToken;
  TokenId mask = kNoToken;
  TokenId fim_prefix = kNoToken;
  TokenId fim_suffix = kNoToken;
  TokenId fim_middle = kNoToken;
  TokenId fim_padding = kNoToken;
  TokenId fim_repository = kNoToken;
  TokenId fim_separator = kNoToken;
  std::vector<TokenId> end_of_generation;  // ascending
};

// Reads the roles and corrects, with a warning, the type of tokens whose text says that they are
// control tokens. A flag of `settings` that asks for a token which the vocabulary lacks is turned
// off with a warning, as is an id out of range.
TokenRoles load_token_roles(const gguf::File& file, Settings& settings, Vocabulary& vocabulary);

}  // namespace billow::tokenizer
