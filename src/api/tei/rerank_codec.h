// POST /rerank and /v1/rerank: documents scored against a query. Two shapes, told apart by their
// fields: that of text-embeddings-inference has "texts", that of Jina and Cohere "documents". Pure
// functions; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "api/embedder.h"

namespace billow::api::tei {

struct RerankRequest {
  EmbedRequest embed{};    // its inputs are the documents
  bool has_texts = false;  // in the shape of text-embeddings-inference
  bool raw_scores = false;
  bool returns_text = false;
  std::optional<size_t> top_n{};  // the best so many alone
};

// Throws http::StatusError (400, 413).
RerankRequest decode_rerank(std::string_view body);

// The whole body: the greatest score first, equal ones in the order of the documents, those that
// failed behind them. Scores are 1 / (1 + exp(-x)) of the model's unless raw ones were asked for.
std::string rerank_json(const RerankRequest& request, const EmbedReply& reply);

}  // namespace billow::api::tei
