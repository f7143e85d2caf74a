// The dense layers that sentence-transformers puts after the pooling (EmbeddingGemma). Each layer
// has its own folder, which modules.json names. Not thread-safe.
#pragma once

#include <string_view>
#include <vector>

#include "convert/planned_tensor.h"
#include "convert/sources.h"
#include "gguf/writer.h"

namespace billow::convert {

// Adds dense_2.weight [inner][n_embd] and dense_3.weight [n_embd][inner] to `plan`, and writes
// their sizes as keys. Does nothing if modules.json names no dense layer. There must be two layers
// of these shapes, without bias and activation. Otherwise throws Error that names the file.
void add_dense_modules(const Sources& sources, std::string_view architecture, uint64_t n_embd,
                       std::vector<PlannedTensor>& plan, gguf::Writer& writer);

}  // namespace billow::convert
