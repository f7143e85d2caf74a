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
  double error = 0.0;   // standard error of the mean, carried over to the value
  size_t n_scored = 0;  // tokens
  size_t n_chunks = 0;
};

// As llama-perplexity computes it: the text in chunks of n_ctx tokens, each evaluated on its own
// (its first token replaced by BOS where the model wants one), the second half of each scored.
// Throws Error when the text is shorter than two chunks' worth or n_ctx makes no sense for the
// model. `progress` is called after each chunk with what is known so far.
Perplexity perplexity(
    Engine& engine, std::span<const int32_t> tokens, size_t n_ctx,
    const std::function<void(const Perplexity& so_far, size_t n_chunks)>& progress);

// Of a text that is read as one, its context of options.context.max_context tokens overflowing:
// what is behind the first overflow is scored. Throws Error when nothing is.
Perplexity overflowing_perplexity(Engine& engine, std::span<const int32_t> tokens,
                                  const TextOptions& options);

// -log softmax(logits)[token], in double precision.
double negative_log_likelihood(std::span<const float> logits, int32_t token);

}  // namespace billow::engine
