// Routes of text-embeddings-inference for vectors, ranking and tokens: /embed, /rerank (also as
// /v1/rerank), /tokenize, /detokenize, /decode. A request names its model by a field or by
// /embed?model=NAME. If the store has only one model, it is the default.
#pragma once

#include <string>
#include <vector>

#include "api/call.h"
#include "api/catalog.h"
#include "api/embedder.h"
#include "api/fields.h"
#include "api/generator.h"
#include "store/store.h"

namespace billow::api::tei {

// Parses {"inputs":TEXT, IDS or an array of them,"truncate"?,"truncation_direction"?,
// "normalize"?,"dimensions"?,"pooling"?,"partial"?}. Throws http::StatusError (400, 413).
EmbedRequest decode_embed(const Fields& fields);

// REQUIRES: the arguments outlive the routes. Handlers are thread-safe.
std::vector<Route> routes(Embedder& embedder, Catalog& catalog, Generator& generator,
                          const store::Store& store);

}  // namespace billow::api::tei
