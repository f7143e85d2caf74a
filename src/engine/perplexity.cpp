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

namespace {

// Sums of negative log-likelihoods.
struct Sum {
  double sum = 0.0;
  double of_squares = 0.0;
  size_t n = 0;

  void add(double nll) {
    sum += nll;
    of_squares += nll * nll;
    ++n;
  }
  Perplexity perplexity(size_t n_chunks) const {
    const auto count = static_cast<double>(n);
    const double mean = sum / count;
    const double variance = std::max(0.0, of_squares / count - mean * mean);
    const double value = std::exp(mean);
    return {value, std::sqrt(variance / std::max(1.0, count - 1.0)) * value, n, n_chunks};
  }
};

}  // namespace

Perplexity perplexity(
    Engine& engine, std::span<const int32_t> tokens, size_t n_ctx,
    const std::function<void(const Perplexity& so_far, size_t n_chunks)>& progress) {
  if (n_ctx < 4 || n_ctx > engine.max_context()) {
    throw Error(ErrorCode::kInvalidInput, "a chunk of " + std::to_string(n_ctx) +
                                              " tokens is not possible; give 4 to " +
                                              std::to_string(engine.max_context()));
  }
  const size_t n_chunks = tokens.size() / n_ctx;
  if (tokens.size() < 2 * n_ctx) {
    throw Error(ErrorCode::kInvalidInput, "the text has " + std::to_string(tokens.size()) +
                                              " tokens, but at least " + std::to_string(2 * n_ctx) +
                                              " are needed; give a longer text");
  }
  Perplexity result;
  Sum sum;
  for (size_t chunk = 0; chunk < n_chunks; ++chunk) {
    std::vector<int32_t> part(tokens.begin() + static_cast<std::ptrdiff_t>(chunk * n_ctx),
                              tokens.begin() + static_cast<std::ptrdiff_t>((chunk + 1) * n_ctx));
    if (engine.tokenizer().add_bos()) part[0] = engine.tokenizer().bos();
    const auto score = [&](size_t row, std::span<const float> logits) {
      if (row + 1 >= n_ctx) return;
      sum.add(negative_log_likelihood(logits, tokens[chunk * n_ctx + row + 1]));
    };
    engine.evaluate(part, n_ctx / 2, score);
    result = sum.perplexity(chunk + 1);
    progress(result, n_chunks);
  }
  return result;
}

Perplexity overflowing_perplexity(Engine& engine, std::span<const int32_t> tokens,
                                  const TextOptions& options) {
  const size_t first = options.context.max_context;
  if (tokens.size() < first + 2) {
    throw Error(ErrorCode::kInvalidInput, "the text has " + std::to_string(tokens.size()) +
                                              " tokens, which do not overflow a context of " +
                                              std::to_string(first) +
                                              "; give a longer text or a smaller context");
  }
  Sum sum;
  engine.evaluate(
      tokens, first,
      [&](size_t i, std::span<const float> logits) {
        if (i + 1 < tokens.size()) sum.add(negative_log_likelihood(logits, tokens[i + 1]));
      },
      options);
  return sum.perplexity(1);
}

}  // namespace billow::engine
