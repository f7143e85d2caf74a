// Mirostat: keeps the surprise of the output near a target by feedback (Basu et al. 2020,
// "Mirostat: a neural text decoding algorithm that directly controls perplexity", arXiv 2007.14966;
// version 2 is by the same authors). Holds the feedback variable mu of one sequence, in bits. The
// sampler owns this object, and selects and draws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/sampling/logit_scan.h"
#include "engine/sampling/options.h"

namespace billow::engine {

class Mirostat {
 public:
  // Number of best tokens from which version 1 estimates the Zipf exponent.
  static constexpr size_t kEstimationTokens = 100;

  // REQUIRES: validated options.
  explicit Mirostat(const SamplingOptions& options) noexcept;

  // Version 1: returns how many of the best of n_vocab tokens to keep, at least 1. `best` has the
  // best tokens, sorted, up to kEstimationTokens. Divides the logits by `temperature` first.
  size_t top_k(std::span<const Candidate> best, float temperature, int32_t n_vocab) const noexcept;

  // Version 2: max surprise (-log2 p) of kept tokens. If no token is within it, the best token is
  // kept.
  double mu() const noexcept { return mu_; }

  // Corrects mu after a token was drawn. `probability`: among the kept tokens, above 0.
  void observe(double probability) noexcept;

 private:
  double tau_;
  double eta_;
  double mu_;
};

}  // namespace billow::engine
