// Measures the importance matrix of a model: the size of the inputs of its products while it
// evaluates a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "engine/engine.h"
#include "quantize/importance.h"

namespace billow::engine {

struct ImportanceOptions {
  size_t n_chunks = 0;          // chunks of 512 tokens; 0: the whole text
  bool output_weights = false;  // also measure output.weight, not only blocks
};

// Measures like llama-imatrix: splits the text into chunks of 512 tokens and evaluates each
// separately. If the model uses BOS, BOS replaces the chunk's first token. Calls `progress` before
// the first chunk and after each chunk; exceptions from `progress` pass through. Throws Error if
// the text is shorter than two chunks, or a number is not finite.
quantize::ImportanceSums measure_importance(
    Engine& engine, std::span<const int32_t> tokens, const ImportanceOptions& options,
    const std::function<void(size_t n_done, size_t n_chunks)>& progress);

}  // namespace billow::engine
