#include "engine/perplexity.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"

namespace billow::engine {

double negative_log_likelihood(std::span<const float> logits, int32_t token) {
  const double largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return largest + std::log(sum) - static_cast<double>(logits[static_cast<size_t>(token)]);
}

Perplexity perplexity(
    Engine& engine, std::span<const int32_t> tokens, size_t n_ctx,
    const std::function<void(const Perplexity& so_far, size_t n_chunks)>& progress) {
  if (n_ctx < 4 || n_ctx > engine.max_context()) {
    throw Error(ErrorCode::kInvalidInput, "a chunk of " + std::to_string(n_ctx) +
                                              " tokens makes no sense; give 4 to " +
                                              std::to_string(engine.max_context()));
  }
  const size_t n_chunks = tokens.size() / n_ctx;
  if (tokens.size() < 2 * n_ctx) {
    throw Error(ErrorCode::kInvalidInput, "the text has " + std::to_string(tokens.size()) +
                                              " tokens, but at least " + std::to_string(2 * n_ctx) +
                                              " are needed; give a longer text");
  }
  Perplexity result;
  double sum = 0.0;
  double sum_of_squares = 0.0;
  for (size_t chunk = 0; chunk < n_chunks; ++chunk) {
    std::vector<int32_t> part(tokens.begin() + static_cast<std::ptrdiff_t>(chunk * n_ctx),
                              tokens.begin() + static_cast<std::ptrdiff_t>((chunk + 1) * n_ctx));
    if (engine.tokenizer().add_bos()) part[0] = engine.tokenizer().bos();
    const auto score = [&](size_t row, std::span<const float> logits) {
      if (row + 1 >= n_ctx) return;
      const double nll = negative_log_likelihood(logits, tokens[chunk * n_ctx + row + 1]);
      sum += nll;
      sum_of_squares += nll * nll;
      ++result.n_scored;
    };
    engine.evaluate(part, n_ctx / 2, score);
    const auto n = static_cast<double>(result.n_scored);
    const double mean = sum / n;
    const double variance = std::max(0.0, sum_of_squares / n - mean * mean);
    result.value = std::exp(mean);
    result.error = std::sqrt(variance / std::max(1.0, n - 1.0)) * result.value;
    result.n_chunks = chunk + 1;
    progress(result, n_chunks);
  }
  return result;
}

}  // namespace billow::engine
