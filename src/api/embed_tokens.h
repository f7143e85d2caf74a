// Converts inputs of embedding models to token ids and truncates them to the model's max length.
// Inputs are texts, token ids or pairs. Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "api/embedder.h"
#include "tokenizer/tokenizer.h"

namespace billow::api {

struct EmbedTokens {
  std::vector<int32_t> tokens;
  size_t n_first = 0;  // of a pair: tokens of its first segment, including the separator
  bool is_cut = false;
};

// All functions return at most `limit` tokens, including special tokens. They throw
// http::StatusError (400) in three cases:
// - the input is too long and `truncation` is kNone
// - nothing is left after truncation
// - the input has no tokens
EmbedTokens text_tokens(const tokenizer::Tokenizer& tokenizer, const std::string& text,
                        size_t limit, Truncation truncation);

// Takes token ids as they are. Also throws for an id that is not in the vocabulary.
EmbedTokens given_tokens(const tokenizer::Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                         size_t limit, Truncation truncation);

// Builds a pair. BERT vocabularies get [CLS] first [SEP] second [SEP]; all others get RoBERTa's
// form, <s> first </s></s> second </s>. `first` and `second` have no special tokens. Truncation
// shortens the longer text until both fit, then both equally.
EmbedTokens pair_tokens(const tokenizer::Tokenizer& tokenizer, const std::vector<int32_t>& first,
                        const std::vector<int32_t>& second, size_t limit, Truncation truncation);

// Fills a query and a document into a reranker's template, at {query} and {document}. Text that
// looks like a special token becomes that token. Truncation shortens only the document.
EmbedTokens rerank_tokens(const tokenizer::Tokenizer& tokenizer, const std::string& rerank_template,
                          const std::string& query, const std::string& document, size_t limit,
                          Truncation truncation);

}  // namespace billow::api
