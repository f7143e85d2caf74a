// Perplexity of a text: how well a model predicts it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "engine/engine.h"

namespace billow::engine {

struct Perplexity {
  double value = 0.0;   // e^(mean negative log-likelihood)
  double error = 0.0;   // standard error of the mean, converted to the scale of the value
  size_t n_scored = 0;  // number of scored tokens
  size_t n_chunks = 0;
};

// Calculates perplexity like llama-perplexity: splits the text into chunks of n_ctx tokens,
// evaluates each separately, and scores its second half. If the model uses BOS, BOS replaces the
// chunk's first token. Calls `progress` after each chunk with the result so far. Throws Error if
// the text is shorter than two chunks, or n_ctx is not possible for the model.
Perplexity perplexity(
    Engine& engine, std::span<const int32_t> tokens, size_t n_ctx,
    const std::function<void(const Perplexity& so_far, size_t n_chunks)>& progress);

// Calculates the perplexity of a text that overflows its context of options.context.max_context
// tokens. Evaluates the text as a whole and scores the tokens after the first overflow. Throws
// Error if there are no such tokens.
Perplexity overflowing_perplexity(Engine& engine, std::span<const int32_t> tokens,
                                  const TextOptions& options);

// Returns -log softmax(logits)[token], in double precision.
double negative_log_likelihood(std::span<const float> logits, int32_t token);

}  // namespace billow::engine
