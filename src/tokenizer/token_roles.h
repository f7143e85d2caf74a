// The roles of tokens: begin, end, separator, fill-in-the-middle, and the tokens that end a
// generation. The roles come from the keys of the file and the defaults of the kind. If a file
// lacks a key, the texts of well-known tokens decide.
#pragma once

#include <vector>

#include "tokenizer/settings.h"
#include "tokenizer/token.h"
#include "tokenizer/vocabulary.h"

namespace billow::tokenizer {

// kNoToken: the vocabulary has no such token.
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

// Reads the roles. If the text of a token shows that it is a control token, corrects its type and
// logs this (debug). If a flag of `settings` needs a token that the vocabulary lacks, turns the
// flag off and logs a warning. Ignores ids out of range with a warning.
TokenRoles load_token_roles(const gguf::File& file, Settings& settings, Vocabulary& vocabulary);

}  // namespace billow::tokenizer
