// Language models that make vectors or rank documents. One thread.
#pragma once

#include <string_view>
#include <vector>

#include "convert/convert.h"
#include "convert/planned_tensor.h"
#include "convert/sources.h"
#include "convert/weights.h"
#include "gguf/writer.h"

namespace billow::convert {

// What a model of ARCHITECTURE has beside what all language models have: the pooling, where
// modules.json describes one; of EmbeddingGemma the dense layers behind it (a note where there is
// no modules.json); and of Qwen3-Reranker (by `name`, config.json or README.md) the two rows of the
// output that rank, with their labels and the template of a pair. REQUIRES: the vocabulary is
// written. Throws Error for a pooling that GGUF has no number for, and as add_dense_modules() does.
void describe_decoder_embedding(const Sources& sources, std::string_view name,
                                const Weights& weights, std::vector<PlannedTensor>& plan,
                                gguf::Writer& writer, const Listener& listener);

}  // namespace billow::convert
