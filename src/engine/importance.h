// The importance matrix of a model: how large the inputs of its products are while it reads a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "engine/engine.h"
#include "quantize/importance.h"

namespace billow::engine {

struct ImportanceOptions {
  size_t n_chunks = 0;          // of 512 tokens; 0: the whole text
  bool output_weights = false;  // of output.weight too, not of blocks alone
};

// As llama-imatrix: the text in chunks of 512 tokens, each evaluated on its own (its first token
// replaced by BOS where the model wants one). `progress` is called before the first chunk and after
// each; what it throws ends the work. Throws Error when the text is shorter than two chunks, or a
// number is not finite.
quantize::ImportanceSums measure_importance(
    Engine& engine, std::span<const int32_t> tokens, const ImportanceOptions& options,
    const std::function<void(size_t n_done, size_t n_chunks)>& progress);

}  // namespace billow::engine
