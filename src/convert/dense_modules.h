// The dense layers that sentence-transformers puts behind pooling (EmbeddingGemma): folders of
// their own, named in modules.json. One thread.
#pragma once

#include <string_view>
#include <vector>

#include "convert/planned_tensor.h"
#include "convert/sources.h"
#include "gguf/writer.h"

namespace billow::convert {

// Adds dense_2.weight [inner][n_embd] and dense_3.weight [n_embd][inner] to `plan`, and their sizes
// to the keys; nothing where modules.json names no such layer. Throws Error that names the file for
// layers that are not two, have a bias or an activation, or are not of these shapes.
void add_dense_modules(const Sources& sources, std::string_view architecture, uint64_t n_embd,
                       std::vector<PlannedTensor>& plan, gguf::Writer& writer);

}  // namespace billow::convert
