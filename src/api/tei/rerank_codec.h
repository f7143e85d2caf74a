// Codec of POST /rerank and /v1/rerank, which score documents against a query. A request has one of
// two forms: "texts" as in text-embeddings-inference, or "documents" as in Jina and Cohere. Pure
// functions; thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "api/embedder.h"

namespace billow::api::tei {

struct RerankRequest {
  EmbedRequest embed{};    // its inputs are the documents
  bool has_texts = false;  // the form of text-embeddings-inference
  bool raw_scores = false;
  bool returns_text = false;
  std::optional<size_t> top_n{};  // return only this many documents with the best scores
};

// Throws http::StatusError (400, 413).
RerankRequest decode_rerank(std::string_view body);

// Returns the whole body. Scores are sorted in descending order, equal scores in the order of the
// documents, and failed documents come last. A score is 1 / (1 + exp(-x)) of the model's score x,
// unless the request wants raw scores.
std::string rerank_json(const RerankRequest& request, const EmbedReply& reply);

}  // namespace billow::api::tei
