// Converts language models that produce embeddings or rank documents. Not thread-safe.
#pragma once

#include <string_view>
#include <vector>

#include "convert/convert.h"
#include "convert/planned_tensor.h"
#include "convert/sources.h"
#include "convert/weights.h"
#include "gguf/writer.h"

namespace billow::convert {

// Adds the parts that an embedding or reranking model has in addition to a language model. Writes
// the pooling if modules.json describes one. For EmbeddingGemma, adds the dense layers after the
// pooling, or writes a note if modules.json is missing. For Qwen3-Reranker (recognised by `name`,
// config.json or README.md), adds the two output rows that rank, their labels and the template of a
// pair. REQUIRES: the vocabulary has been written. Throws Error for a pooling that has no number in
// GGUF, and for the errors of add_dense_modules().
void describe_decoder_embedding(const Sources& sources, std::string_view name,
                                const Weights& weights, std::vector<PlannedTensor>& plan,
                                gguf::Writer& writer, const Listener& listener);

}  // namespace billow::convert
