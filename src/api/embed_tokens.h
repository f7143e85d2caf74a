// The token ids of inputs of embeddings, at most as many as a model takes: of texts, of ids that
// came as such, and of pairs. Pure; any thread.
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
  size_t n_first = 0;  // of a pair: tokens of its first segment, which its separator ends
  bool is_cut = false;
};

// All functions make at most `limit` tokens, special ones included, and throw http::StatusError
// (400) where there are more and they may not be cut, where nothing would be left, and where there
// are none to begin with.
EmbedTokens text_tokens(const tokenizer::Tokenizer& tokenizer, const std::string& text,
                        size_t limit, Truncation truncation);

// Ids as they came. Also throws for one that is not in the vocabulary.
EmbedTokens given_tokens(const tokenizer::Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                         size_t limit, Truncation truncation);

// A pair as BERT has it, [CLS] first [SEP] second [SEP], or as RoBERTa does, for any other kind of
// vocabulary: <s> first </s></s> second </s>. `first` and `second` are without special tokens; of
// the two the longer one is cut until both fit, then both alike.
EmbedTokens pair_tokens(const tokenizer::Tokenizer& tokenizer, const std::vector<int32_t>& first,
                        const std::vector<int32_t>& second, size_t limit, Truncation truncation);

// A query and a document in the template of a model that ranks, at {query} and {document}; what
// looks like a special token is one. The document alone is cut.
EmbedTokens rerank_tokens(const tokenizer::Tokenizer& tokenizer, const std::string& rerank_template,
                          const std::string& query, const std::string& document, size_t limit,
                          Truncation truncation);

}  // namespace billow::api
