// The routes of text-embeddings-inference for vectors, ranking and tokens: /embed, /rerank (also as
// /v1/rerank), /tokenize, /detokenize, /decode. They name their model by a field or a parameter of
// the query, /embed?model=NAME, or mean the store's only one.
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

// {"inputs":TEXT, IDS or an array of them,"truncate"?,"truncation_direction"?,"normalize"?,
// "dimensions"?,"pooling"?,"partial"?}. Throws http::StatusError (400, 413).
EmbedRequest decode_embed(const Fields& fields);

// The arguments outlive the routes. Handlers may run on any number of threads.
std::vector<Route> routes(Embedder& embedder, Catalog& catalog, Generator& generator,
                          const store::Store& store);

}  // namespace billow::api::tei
